"""Latency from a pod to its node, by stage, on a separate local stack: `python -m bench.lifecycle`.

It prints p50 and p95 of many runs. Each run creates one pod that fits no existing node, and records when each stage
occurs, observed from outside: by the clock of this process, the execution's history, and EC2. The first runs warm
the functions and are reported separately. Cold runs are those before which all sandboxes were ended, as Lambda does
after a quiet time; in the last of them each function has only the CPU of its memory after its start, as on Lambda. The
local boot delay is subtracted, because Joiner does not influence how long EC2 takes to boot. A last table has the times
from a Spot interruption warning (`bench.spot_warnings`). Before it, the time from Ready to Running is shown for pods
that arrive twice a second, while other rounds plan and launch (`bench.arriving_pods`).
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.arriving_pods import BETWEEN_PODS, STAGE, ArrivingPods
from bench.benchmark_stack import deployed_stack
from bench.lambda_reports import Report, reports
from bench.spot_warnings import STAGES as WARNING_STAGES
from bench.spot_warnings import SpotWarnings
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

BOOT_SECONDS: Final = 1.0
PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"
POLL: Final = 0.02  # seconds; the error of polled values

POOL: Final[Sequence[Object]] = (
    {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "bench"},
        "spec": {
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
            "providerRef": {"name": "bench"},
        },
    },
    {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "bench"},
        "spec": {
            "subnetSelector": {"karpenter.sh/discovery": "joiner-demo"},
            "securityGroupSelector": {"karpenter.sh/discovery": "joiner-demo"},
        },
    },
)


def pod(name: str) -> Object:
    """Return a pod that fills an m5.large, so that each pod needs its own node."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1500m"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@dataclass(slots=True)
class Stopwatch:
    """Times of one run, in seconds since the epoch, by stage in the order of `STAGES`."""

    at: dict[str, float] = field(default_factory=dict)

    def note(self, stage: str) -> None:
        """Note the time of a stage, if it is its first time."""
        self.at.setdefault(stage, time.time())

    def since_start(self) -> dict[str, float]:
        """Return the seconds from the pod's creation to each stage, without the simulated boot time."""
        start = self.at["pod created"]
        late = {"node Ready", "pod Running"}
        return {stage: when - start - (BOOT_SECONDS if stage in late else 0) for stage, when in self.at.items()}


STAGES: Final = (
    "pod created",
    "execution started",
    "snapshot taken",
    "plan made",
    "fleet request sent",
    "fleet answered",
    "instance running",
    "node Ready",
    "pod Running",
)

AFTER: Final[Mapping[str, str]] = {
    "Find pending pods": "snapshot taken",
    "Plan capacity": "plan made",
    "Launch one group": "fleet answered",
}
BEFORE: Final[Mapping[str, str]] = {"Launch one group": "fleet request sent"}


class LifecycleRun:
    """A deployed stack in which pods are timed."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.deployed = DemoStack.of(stack)

    def run(self, name: str) -> dict[str, float]:
        """Run one pod from its creation until it runs; return seconds by stage."""
        watch, known = Stopwatch(), {node["metadata"]["name"] for node in self.deployed.kube.items(NODES)}
        machines = {each["InstanceId"] for each in self._instances()}
        ready = threading.Thread(target=self._watch_node, args=(watch, known), daemon=True)
        watch.note("pod created")
        self.deployed.kube.create(PODS, pod(name))
        ready.start()
        until(lambda: self._instance_runs(watch, machines), what="an instance", limit=60)
        until(lambda: self._pod_runs(watch, name), what="a running pod", limit=60)
        ready.join(30)
        self._from_history(watch)
        return watch.since_start()

    def run_cold(self, name: str) -> dict[str, float]:
        """Run one pod after the ends of all executions and of all sandboxes."""
        client, machine = self.deployed.client("stepfunctions"), self.deployed.scale_up_arn
        running = {"stateMachineArn": machine, "statusFilter": "RUNNING"}
        until(lambda: not client.list_executions(**running)["executions"], what="the end of the scale-ups", limit=60)
        self.stack.knob("sandboxes/end")
        return self.run(name)

    def _instances(self) -> list[dict[str, Any]]:
        answer = self.deployed.client("ec2").describe_instances()
        return [each for reservation in answer["Reservations"] for each in reservation["Instances"]]

    def _instance_runs(self, watch: Stopwatch, known: set[str]) -> bool:
        if any(each["InstanceId"] not in known and each["State"]["Name"] == "running" for each in self._instances()):
            watch.note("instance running")
            return True
        return False

    def _watch_node(self, watch: Stopwatch, known: set[str]) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and "node Ready" not in watch.at:
            for node in self.deployed.kube.items(NODES):
                if node["metadata"]["name"] not in known and condition(node, "Ready") == "True":
                    watch.note("node Ready")
            time.sleep(POLL)

    def _pod_runs(self, watch: Stopwatch, name: str) -> bool:
        if self.deployed.kube.get(f"{PODS}/{name}")["status"].get("phase") == "Running":
            watch.note("pod Running")
            return True
        return False

    def _from_history(self, watch: Stopwatch) -> None:
        """Record when the execution that launched the node entered its states. It may have started before the pod was
        created: the first one also validates the pool."""
        client, created = self.deployed.client("stepfunctions"), watch.at["pod created"]
        for execution in client.list_executions(stateMachineArn=self.deployed.scale_up_arn)["executions"]:
            if "stopDate" in execution and execution["stopDate"].timestamp() < created:
                continue
            pages = client.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
            events = [each for page in pages for each in page["events"] if each["timestamp"].timestamp() >= created]
            found = dict(_moments(events))
            if "fleet answered" in found:
                watch.at |= {"execution started": max(execution["startDate"].timestamp(), created), **found}
                return


def _moments(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Return the stages among the events of a history. For a state that was entered several times, the first time
    counts; the events are reversed because dict keeps the last value."""
    found = []
    for event in reversed(events):
        entered = event.get("stateEnteredEventDetails", {}).get("name", "")
        left = event.get("stateExitedEventDetails", {}).get("name", "")
        if stage := BEFORE.get(entered) or AFTER.get(left):
            found.append((stage, event["timestamp"].timestamp()))
    return found


def table(title: str, runs: Sequence[Mapping[str, float]], stages: Sequence[str] = STAGES[1:]) -> Table:
    """Return a table with p50 and p95 of each stage."""
    shown = Table("stage", "p50", "p95", title=title, title_justify="left", box=None, padding=(0, 2))
    for stage in stages:
        times = sorted(run[stage] for run in runs if stage in run)
        if times:
            shown.add_row(stage, f"{statistics.median(times):.2f} s", f"{quantile(times, 0.95):.2f} s")
    return shown


def quantile(sorted_values: Sequence[float], share: float) -> float:
    """Return the quantile of these values (the nearest one of them).

    >>> quantile([1.0, 2.0, 3.0, 4.0], 0.95)
    4.0
    """
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def functions(found: Sequence[Report]) -> Table:
    """Return a table with start, warm call and memory of each function, from its REPORT lines."""
    title = "functions (start = imports, on a whole core of this machine)"
    columns = ("function", "calls", "start p50", "call p50", "call p95", "memory", "of")
    shown = Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2))
    for name in sorted({report.function for report in found}):
        mine = [report for report in found if report.function == name]
        starts = [report.init for report in mine if report.init]
        calls = sorted(report.milliseconds for report in mine)
        start = f"{statistics.median(starts):.0f} ms" if starts else ""
        used, size = max(report.used_mb for report in mine), mine[0].memory_mb
        shown.add_row(
            name,
            str(len(mine)),
            start,
            f"{statistics.median(calls):.0f} ms",
            f"{quantile(calls, 0.95):.0f} ms",
            f"{used} MB",
            f"{size} MB",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lifecycle", description="from a pod to its node, stage by stage"
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3, help="runs right after the deployment, reported apart")
    parser.add_argument("--cold", type=int, default=5, help="runs whose functions all start cold")
    parser.add_argument("--warnings", type=int, default=10, help="Spot interruption warnings; the first one is cold")
    parser.add_argument("--arriving", type=int, default=60, help="pods that arrive while others are planned")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120, soft_wrap=not sys.stdout.isatty())
    with deployed_stack(BOOT_SECONDS) as stack:
        began = time.time()
        stack.kube().apply_manifests(POOL)
        bench = LifecycleRun(stack)
        first = [bench.run(f"first-{i}") for i in range(options.warm_up)]
        warm = [bench.run(f"warm-{i}") for i in range(options.runs)]
        console.print(
            table(f"warm: {len(warm)} runs, after the pod was created (boot of {BOOT_SECONDS:.0f} s taken out)", warm)
        )
        console.print(table(f"the first {len(first)} runs after the deployment, while it fills the catalogue", first))
        cold = [bench.run_cold(f"cold-{i}") for i in range(options.cold)]
        console.print(table(f"cold: {len(cold)} runs, all functions without a sandbox", cold))
        stack.knob("cpu-shares", {"on": True})
        limited = [bench.run_cold(f"limited-{i}") for i in range(options.cold)]
        stack.knob("cpu-shares", {"on": False})
        console.print(table(f"cold: {len(limited)} runs, and each function with the CPU of its memory", limited))
        arriving, plans = ArrivingPods(stack, pod).run(options.arriving)
        title = f"{len(arriving)} pods, one each {BETWEEN_PODS} s, during {plans} plans"
        console.print(table(title, arriving, (STAGE,)))
        warned = SpotWarnings(stack).run(options.warnings)[1:] if options.warnings > 1 else []
        console.print(
            table(f"warm: {len(warned)} Spot interruption warnings, after the warning", warned, WARNING_STAGES)
        )
        console.print(functions(list(reports(stack.client("lambda"), stack.client("logs"), began))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
