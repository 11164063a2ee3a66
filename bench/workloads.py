"""Three workloads from `kubectl apply` to the last running pod, stage by stage: `python -m bench.workloads`.

Each workload runs on a separate local stack with a boot delay of five seconds. With `--karpenter`, Karpenter's KWOK
program runs it afterwards on the same machine (`bench.karpenter_cluster`): same control plane, instance types, prices,
allocatable and boot delay. Without it, the tables show figures that were recorded on another machine, whose times
cannot be compared. Compare on a quiet machine only.

The stages are the states of the executions, by the seconds from `apply` to the first entry and the last exit. The time
of functions is the sum of their REPORT lines, and their CPU time is that of their sandboxes, starts included. So both
are separate from the local AWS, and the CPU time does not depend on other load of the machine. The programs of the
local stack follow with theirs.
"""

import argparse
import re
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.applied_workloads import (
    BOOT_SECONDS,
    FAMILIES,
    NODE_CLAIMS,
    PODS,
    POOL,
    WHEN_EMPTY,
    WORKLOADS,
    Workload,
    WorkloadCost,
    apply_workload,
    price_per_hour,
)
from bench.benchmark_stack import deployed_stack
from bench.karpenter_program import karpenter_version
from bench.karpenter_runs import run_with_karpenter
from bench.lambda_reports import reports, service_names
from bench.lifecycle import quantile
from bench.process_seconds import cpu_seconds, spent
from bench.spread_waits import first_nodes, read_pods, waits_from_allowed, waits_from_ready
from bench.workload_milestones import Milestone, milestones
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

WEBHOOK_CALLS: Final = re.compile(r"^apiserver_admission_webhook_request_total\{(.*)\} (\S+)$", re.MULTILINE)
LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def pool(largest: int) -> list[Object]:
    """Return a pool of on-demand types of six families below so many vCPUs, and its class."""
    key = "karpenter.k8s.aws/instance-"
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": f"{key}family", "operator": "In", "values": list(FAMILIES)},
        {"key": f"{key}cpu", "operator": "Lt", "values": [str(largest)]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": POOL}
    return [
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": POOL},
            "spec": {
                "role": "KarpenterNodeRole-joiner-demo",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "joiner-demo"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "joiner-demo"}}],
            },
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": POOL},
            "spec": {
                "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
                "disruption": WHEN_EMPTY,
            },
        },
    ]


@dataclass(slots=True)
class Outcome:
    """What one workload gave: seconds until all pods ran, and figures by stage."""

    workload: Workload
    seconds: float
    nodes: int
    _: KW_ONLY
    price_per_hour: float
    running: int
    stages: Mapping[str, tuple[float, float, int]]
    milestones: Sequence[Milestone]
    ready_to_running: Sequence[float]
    allowed_to_running: Sequence[float]
    """Seconds from when the spread of a pod allows it on its Ready node."""
    function_seconds: Mapping[str, tuple[float, float, int]]
    """By function: seconds, seconds of CPU, and invocations."""
    program_seconds: Mapping[str, float]
    """By program of the local stack: seconds of CPU until all pods ran."""
    executions: int
    rings: Mapping[str, Mapping[str, int]]
    """By webhook of the doorbell: its calls by HTTP status; 200 is an answer, 0 none in time."""


class WorkloadRun:
    """A deployed stack on which one workload runs."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._deployed = DemoStack.of(stack)

    def run(self, workload: Workload) -> Outcome:
        """Apply the workload, wait until all its pods run, and return the figures."""
        kube = self._deployed.kube
        kube.apply_manifests(pool(workload.largest))
        self._wait_until_validated()
        cpu, programs = self._cpu_seconds(), cpu_seconds(self._stack.known.supervisor)
        began, ended = apply_workload(kube, workload)
        used = spent(programs, cpu_seconds(self._stack.known.supervisor))
        pods = kube.items(PODS)
        running = sum(one["status"].get("phase") == "Running" for one in pods)
        claims = kube.items(NODE_CLAIMS)
        stages, count = self._stages(began)
        nodes = kube.items("/api/v1/nodes")
        started = read_pods(nodes, pods)
        return Outcome(
            workload,
            seconds=ended - began,
            nodes=len(claims),
            price_per_hour=sum(map(price_per_hour, claims)),
            running=running,
            stages=stages,
            milestones=milestones(stages, nodes, pods, began),
            ready_to_running=waits_from_ready(started),
            allowed_to_running=waits_from_allowed(started, first_nodes(nodes)),
            function_seconds=self._function_seconds(began, cpu),
            program_seconds=used,
            executions=count,
            rings=webhook_calls(kube.call("GET", "/metrics")["text"]),
        )

    def _wait_until_validated(self) -> None:
        """Wait for the execution that validates the pool."""
        client = self._deployed.client("stepfunctions")
        until(
            lambda: (
                {
                    one["status"]
                    for one in client.list_executions(stateMachineArn=self._deployed.scale_up_arn)["executions"]
                }
                == {"SUCCEEDED"}
            ),
            what="a validated pool",
            limit=60,
        )

    def _stages(self, began: float) -> tuple[dict[str, tuple[float, float, int]], int]:
        """Return, by state, the first entry and the last exit in seconds, and how often it was entered; and the number
        of executions."""
        first: dict[str, float] = {}
        last: dict[str, float] = {}
        times: Counter[str] = Counter()
        client = self._deployed.client("stepfunctions")
        mine = [
            one
            for one in client.list_executions(stateMachineArn=self._deployed.scale_up_arn)["executions"]
            if one["startDate"].timestamp() >= began - 1
        ]
        for one in mine:
            pages = client.get_paginator("get_execution_history").paginate(executionArn=one["executionArn"])
            for event in (event for page in pages for event in page["events"]):
                at = event["timestamp"].timestamp() - began
                if name := event.get("stateEnteredEventDetails", {}).get("name"):
                    first[name] = min(first.get(name, at), at)
                    times[name] += 1
                if name := event.get("stateExitedEventDetails", {}).get("name"):
                    last[name] = max(last.get(name, at), at)
        return {name: (at, last.get(name, at), times[name]) for name, at in first.items()}, len(mine)

    def _cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time of each function so far, by its name in the account."""
        return {name: float(used) for name, used in self._stack.knob("function-cpu")["seconds"].items()}

    def _function_seconds(self, began: float, before: Mapping[str, float]) -> dict[str, tuple[float, float, int]]:
        after = self._cpu_seconds()
        names = service_names(self._stack.client("lambda"))
        found: dict[str, tuple[float, float, int]] = {}
        for report in reports(self._stack.client("lambda"), self._stack.client("logs"), began):
            seconds, _, times = found.get(report.function, (0.0, 0.0, 0))
            found[report.function] = (seconds + report.milliseconds / 1000, 0.0, times + 1)
        for name, used in after.items():
            if (function := names.get(name, name)) in found:
                seconds, cpu, times = found[function]
                found[function] = (seconds, cpu + used - before.get(name, 0.0), times)
        return found


def webhook_calls(metrics: str) -> dict[str, dict[str, int]]:
    """Return, by webhook of the doorbell, how often the API server called it, by HTTP status, from the API server's
    metrics. Calls that are not 200 were refused.

    >>> call = 'apiserver_admission_webhook_request_total{code="%s",name="pods.doorbell.joiner.dev"} %s'
    >>> webhook_calls("\\n".join((call % (200, 40), call % (429, 2))))
    {'pods': {'200': 40, '429': 2}}
    """
    calls: dict[str, Counter[str]] = {}
    for labels, count in WEBHOOK_CALLS.findall(metrics):
        values = dict(LABEL.findall(labels))
        name, _, rest = values["name"].partition(".")
        if rest == "doorbell.joiner.dev":
            calls.setdefault(name, Counter())[values["code"]] += int(float(count))
    return {name: dict(sorted(calls[name].items())) for name in sorted(calls)}


def comparison(found: Sequence[Outcome], karpenter: Mapping[str, WorkloadCost]) -> Table:
    """Return one line for each workload: Joiner's time, nodes and price beside Karpenter's. `karpenter` has what was
    measured, by workload; for others the recorded figures are shown."""
    columns = (
        "workload",
        "pods",
        "seconds",
        "Karpenter",
        "nodes",
        "Karpenter",
        "$/h",
        "Karpenter",
        "Ready → Running p95",
        "allowed → Running p95",
    )
    title = f"apply → all pods running, beside {_source(karpenter)}"
    shown = Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2))
    for one in found:
        beside = karpenter.get(one.workload.name, one.workload.karpenter)
        shown.add_row(
            one.workload.name,
            f"{one.running}/{one.workload.pods}",
            f"{one.seconds:.1f}",
            f"{beside.seconds:.1f}",
            str(one.nodes),
            str(beside.nodes),
            f"{one.price_per_hour:.2f}",
            f"{beside.price_per_hour:.2f}",
            *(
                f"{quantile(waits, 0.95):.0f} s (p50 {statistics.median(waits):.0f} s)" if waits else ""
                for waits in (one.ready_to_running, one.allowed_to_running)
            ),
        )
    return shown


def _source(karpenter: Mapping[str, WorkloadCost]) -> str:
    measured = f"Karpenter {karpenter_version()} in this run"
    return measured if karpenter else "Karpenter as recorded on another machine"


def milestone_table(found: Sequence[Outcome], karpenter: Mapping[str, WorkloadCost]) -> Table:
    """Return the first and the last moment of each stage, by workload; of Karpenter only the last one is known."""
    names = list(dict.fromkeys(each.name for one in found for each in one.milestones))
    columns = [name for one in found for name in (one.workload.name, "last")]
    title = "seconds after apply, first and last"
    shown = Table("stage", *columns, title=title, title_justify="left", box=None, padding=(0, 2))
    for name in names:
        reached = [next((each for each in one.milestones if each.name == name), None) for one in found]
        cells = [("", "") if each is None else (f"{each.first:.1f}", f"{each.last:.1f}") for each in reached]
        shown.add_row(name, *(cell for pair in cells for cell in pair))
    shown.add_row("all Running", *(cell for one in found for cell in ("", f"{one.seconds:.1f}")))
    beside = [karpenter.get(one.workload.name, one.workload.karpenter) for one in found]
    shown.add_row("Karpenter", *(cell for one in beside for cell in ("", f"{one.seconds:.1f}")))
    return shown


def stage_table(one: Outcome) -> Table:
    """Return the states of one workload's executions in the order of their first entry."""
    title = f"{one.workload.name}: states of {one.executions} executions, and the time of their functions"
    shown = Table("state", "first", "last end", "times", title=title, title_justify="left", box=None, padding=(0, 2))
    for name, (first, last, times) in sorted(one.stages.items(), key=lambda item: item[1]):
        shown.add_row(name, f"{first:.2f} s", f"{last:.2f} s", str(times))
    for name, codes in one.rings.items():
        refused = ", ".join(f"{count} with {code}" for code, count in codes.items() if code != "200")
        shown.add_row(f"webhook {name}", refused or "none refused", "", str(sum(codes.values())))
    for name, (seconds, cpu, times) in sorted(one.function_seconds.items(), key=lambda item: -item[1][1]):
        shown.add_row(f"function {name}", f"{cpu:.2f} s CPU", f"{seconds:.2f} s", str(times))
    total = sum(cpu for _, cpu, _ in one.function_seconds.values())
    shown.add_row(
        "all functions", f"{total:.2f} s CPU", "", str(sum(times for _, _, times in one.function_seconds.values()))
    )
    for name, used in one.program_seconds.items():
        shown.add_row(f"program {name}", f"{used:.2f} s CPU", "", "")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.workloads", description="three workloads, from apply to the last running pod"
    )
    parser.add_argument("--only", default="", help="names of workloads, separated by commas")
    parser.add_argument("--karpenter", action="store_true", help="also with Karpenter, which is built if necessary")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 140, soft_wrap=not sys.stdout.isatty())
    wanted = [one for one in WORKLOADS if not options.only or one.name in options.only.split(",")]
    found: list[Outcome] = []
    karpenter: dict[str, WorkloadCost] = {}
    for workload in wanted:
        with deployed_stack(BOOT_SECONDS) as stack:
            found.append(WorkloadRun(stack).run(workload))
        console.print(stage_table(found[-1]))
        if options.karpenter:
            karpenter[workload.name] = run_with_karpenter(workload)
    console.print(milestone_table(found, karpenter))
    console.print(comparison(found, karpenter))
    return 0 if all(one.running == one.workload.pods for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
