"""No state exceeds 256 KiB, however large the cluster is: the real machines run with the largest responses of
functions.

States.ALL does not catch States.DataLimitExceeded: such an execution ends at once, and releases nothing. So functions
limit their responses (their constants are used here), and the machines limit what a Map collects.
`tests/unit/functions/test_response_sizes.py` shows that the functions keep these limits with 5,000 claims.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from functions.begin_retirement import handler as begin_retirement
from functions.check_registration import handler as check_registration
from functions.detect_drift import handler as detect_drift
from functions.launch_instances import handler as launch_instances
from functions.record_node_claims import handler as record_node_claims
from functions.survey_cluster import handler as survey_cluster
from functions.survey_instances import handler as survey_instances
from infra.lease_limits import LEASE_SECONDS
from infra.machine_functions import RETIREMENT, SCALE_UP, SWEEP
from infra.machine_resources import MachineResources
from infra.retirement_states import RetirementResources, retirement_definition
from infra.scale_up_states import scale_up_definition
from infra.service_integrations import ServiceIntegrations
from infra.sweep_states import SweepResources, sweep_definition
from joiner.lifecycle.due_retirements import DUE_AT_ONCE
from joiner.lifecycle.orphans import REBUILT_AT_ONCE
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, WHY_LIMIT
from joiner.lifecycle.retirement_waves import WAVE
from joiner.reporting.decision_summaries import KINDS_OF_NODES_SHOWN, PENDING_REASONS_SHOWN
from joiner.reporting.shortened_reasons import REASON_AT_MOST, REASONS_SHOWN
from tests.infra.scripted_machine import Line, Scripted, ScriptedAccount, scripted_account
from tests.infra.sweep_machine import NO_WARM_UPS
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

LIMIT: Final = 262_144  # bytes of the input or result of a state, or of the variables that one state assigns
MARGIN: Final = 0.8
NAME: Final = 253  # characters of a Kubernetes name at most
CAUSE: Final = 32_768  # characters of an error's cause at most

BEGIN, CLUSTER, INSTANCES, DETECT = begin_retirement, survey_cluster, survey_instances, detect_drift
RECORD, LAUNCH, CHECK = record_node_claims, launch_instances, check_registration


def name(number: int) -> str:
    return f"{number:x}".zfill(NAME)


def execution(number: int) -> str:
    return f"arn:aws-us-gov:states:us-gov-west-1:123456789012:execution:{'m' * 80}:{number:x}".ljust(256, "x")


def reasons(count: int) -> list[str]:
    return ["x" * REASON_AT_MOST] * count


def asked(count: int, reason: str = "never-joined") -> list[dict[str, Any]]:
    return [
        {"claim": name(number), "reason": reason, "instance": f"i-{number:017x}", "notBefore": 1_795_238_278}
        for number in range(count)
    ]


def entries(count: int, stage: str) -> list[dict[str, Any]]:
    """Return retiring claims with the longest reasons."""
    fixed = {
        "reason": "never-joined",
        "kind": "NodeClaim",
        "uid": "0" * 36,
        "closed_at": 1_795_238_278,
        "opened_at": 1_795_238_278,
        "since": 1_795_238_278,
        "launched": 1_795_238_278,
        "emptied": 1_795_238_278,
    }
    return [
        {
            **fixed,
            "claim": name(number),
            "instance": f"i-{number:017x}",
            "node": name(number),
            "stage": stage,
            "why": "x" * WHY_LIMIT,
        }
        for number in range(count)
    ]


def waves(stage: str) -> list[list[dict[str, Any]]]:
    found = entries(RETIRED_AT_ONCE, stage)
    return [found[start : start + WAVE] for start in range(0, len(found), WAVE)]


SWEPT: Final[Mapping[str, Sequence[Line]]] = {
    "survey_cluster": [
        {
            **dict.fromkeys(
                ("pendingPods", "changedBuffers", "buffersToPlan", "missingReplicas", "unwatchedClaims"), 50_000
            ),
            **dict.fromkeys(("unlaunchedClaims", "staleClaims", "closedNodes", "unwritten"), 50_000),
            "refused": "",
            "retire": asked(DUE_AT_ONCE),
            "emptyLater": 50_000,
            "disruption": {
                "due": True,
                "digest": "0" * 20,
                "executions": [execution(number) for number in range(100)],
                "staleMarks": 1_000,
            },
            "drift": {"due": True, "digest": "0" * 20, "snapshot": f"snapshots/{name(0)}/1.json.gz"},
            "survey": f"surveys/{name(0)}.json.gz",
            "reasons": reasons(REASONS_SHOWN),
        }
    ],
    "survey_instances": [
        {
            **dict.fromkeys(("instances", "endedWaves", "openLaunches", "endedRetirements", "refused"), 5_000),
            "leaseBroken": True,
            "disrupting": False,
            "leftDisruptions": [execution(number) for number in range(100)],
            "described": f"instances/{name(0)}.json.gz",
            "retire": [
                *asked(RETIRED_AT_ONCE // 2),
                *asked(RETIRED_AT_ONCE - RETIRED_AT_ONCE // 2, "empty"),
            ],
            "garbage": [f"i-{number:017x}" for number in range(INSTANCES.COLLECTED_AT_ONCE)],
            "rebuild": [
                {"instance": f"i-{number:017x}", "node": name(number), "claim": name(number)}
                for number in range(REBUILT_AT_ONCE)
            ],
            "reasons": reasons(REASONS_SHOWN),
        }
    ],
    "collect_garbage": [
        {
            "terminated": [f"i-{number:017x}" for number in range(INSTANCES.COLLECTED_AT_ONCE)],
            "refused": 0,
            "reasons": reasons(REASONS_SHOWN),
            "left": 0,
        }
    ],
    "rebuild_claims": [
        {"rebuilt": [name(number) for number in range(REBUILT_AT_ONCE)], "left": reasons(REBUILT_AT_ONCE)}
    ],
    "detect_drift": [
        {**dict.fromkeys(("drifted", "changed", "stamped", "notCompared"), 5_000), "reasons": reasons(DETECT.SHOWN)}
    ],
}
STARTED_BY_SWEEPS: Final = ("scale_up_arn", "retire_arn", "retire_empty_arn", "disrupt_arn", "sweep_arn")
SCALED_UP: Final[Mapping[str, Sequence[Line]]] = {
    "find_pending_pods": [
        lambda machines, _: {
            **dict.fromkeys(("pods", "podsToPlan", "unfinished", "unwatched"), 50_000),
            "rings": machines.rings(),
            "refused": "",
            "complete": True,
            "gathering": dict.fromkeys(("waited", "pods", "idle"), 50_000),
            "snapshot": "s",
        }
    ],
    "resolve_node_classes": [{"classes": "c", "ready": 100, "refused": 100, "validation": ""}],
    "plan_capacity": [
        {
            **dict.fromkeys(
                ("nodes", "pods", "existing", "pending", "pricePerHour", "lowerBoundPerHour", "gap"), 12_345.678901
            ),
            "plan": "p",
            "nodePools": [
                {
                    "nodePool": name(0),
                    "instanceType": "u-24tb1.112xlarge",
                    "zone": "us-gov-west-1a",
                    "capacityType": "on-demand",
                    "count": 1,
                }
            ]
            * KINDS_OF_NODES_SHOWN,
            "pendingReasons": reasons(PENDING_REASONS_SHOWN),
        }
    ],
    "record_node_claims": [
        {"launches": "l", "groups": list(range(2 * RECORD.GROUPS_AT_ONCE)), "claims": 5_000, "postponed": 0},
    ],
    "launch_instances": [
        {
            **dict.fromkeys(("launched", "short", "failed"), 400),
            "notLaunched": 0,
            "errors": ["x" * 60] * LAUNCH.CODES_SHOWN,
        }
    ],
    "record_launches": [
        {
            **dict.fromkeys(("short", "failed"), 0),
            **dict.fromkeys(("again", "later", "throttled", "launching"), False),
            "launched": 5_000,
            "waiting": 5_000,
            "pricePerHour": 12_345.6,
        }
    ],
    "check_registration": [
        {
            **dict.fromkeys(
                ("rings", "waiting", "registered", "initialized", "joining", "postponed", "settling", "opensIn"), 50_000
            ),
            **dict.fromkeys(("podsPlaced", "placedAsPlanned"), 50_000),
            "done": True,
            "failed": [name(number) for number in range(CHECK.NODES_SHOWN)],
            "nodes": [
                {
                    "name": name(number),
                    "claim": name(number),
                    "instanceType": "u-24tb1.112xlarge",
                    "zone": "us-gov-west-1a",
                    "capacityType": "on-demand",
                    "pricePerHour": 12_345.678901,
                }
                for number in range(CHECK.NODES_SHOWN)
            ],
        }
    ],
}


def drained(stage: str, following: str) -> Line:
    def line(_machines: Any, event: Mapping[str, Any]) -> Mapping[str, Any]:
        moved = [{**each, "stage": following} if each["stage"] == stage else each for each in event["claims"]]
        return {"claims": moved, "pause": 1, "evicted": 400}

    return line


RETIRED: Final[Mapping[str, Sequence[Line]]] = {
    "begin_retirement": [
        lambda _machines, event: {
            "refused": "",
            "waves": waves("draining") if event["lease"]["number"] == 0 else [],
            "begun": 100,
            "moving": 50_000,
            "later": 0,
            "skipped": [] if event["lease"]["number"] == 0 else [{"claim": name(0), "why": "x" * REASON_AT_MOST}],
        }
    ],
    "evict_pods": [drained("draining", "drained")],
    "terminate_instances": [drained("drained", "terminating")],
    "confirm_termination": [drained("terminating", "terminated")],
    "forget_nodes": [drained("terminated", "forgotten")],
}


class AllMachines(Scripted):
    """All machines of one cluster."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.client = self.aws.client("stepfunctions")
        common: Mapping[str, Any] = {
            "integrations": ServiceIntegrations("aws"),
            "cluster": self.cluster,
            "table": self.table,
            "functions": self.functions,
        }
        self.scale_up = self.machine("scale-up", scale_up_definition(MachineResources(**common)))
        quiet = self.machine("quiet")
        self.retire = self.machine("retire", retirement_definition(RetirementResources(**common, scale_up_arn=quiet)))
        started: Mapping[str, Any] = dict.fromkeys(STARTED_BY_SWEEPS, quiet)
        self.sweep = self.machine("sweep", sweep_definition(SweepResources(**common, **started, warm_up=NO_WARM_UPS)))

    def run(self, machine: str, **given: Any) -> Mapping[str, Any]:
        """Run one execution from start to end; return it with its events."""
        execution = self.client.start_execution(stateMachineArn=machine, input=json.dumps(given))["executionArn"]
        ended = self.end(execution)
        pages = self.client.get_paginator("get_execution_history").paginate(executionArn=execution)
        return {**ended, "events": [event for page in pages for event in page["events"]]}


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[AllMachines]]:
    names = sorted({*SWEEP, *SCALE_UP, *RETIREMENT})
    with scripted_account(AllMachines, names, {**SWEPT, **SCALED_UP, **RETIRED}, local_aws) as made:
        yield made


def payloads(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Return the bytes of every input, output, argument and assignment, with its position."""
    for event in events:
        details: Mapping[str, Any] = next((value for key, value in event.items() if key.endswith("EventDetails")), {})
        where = f"{event['type']} {details.get('name', details.get('resource', ''))}"
        for kind in ("input", "output", "parameters"):
            yield len(details.get(kind, "").encode()), f"{where} {kind}"
        yield sum(len(text.encode()) for text in details.get("assignedVariables", {}).values()), f"{where} variables"


def largest(title: str, ran: Mapping[str, Any]) -> int:
    size, where = max(payloads(ran["events"]))
    print(f"\n{title}: {size:,} of {LIMIT:,} bytes ({where}), {len(ran['events'])} events")
    return size


def test_the_sweep_of_the_largest_cluster_stays_below_the_limit(account: ScriptedAccount[AllMachines]) -> None:
    machines = account.machines()
    ran = machines.run(machines.sweep)

    assert ran["status"] == "SUCCEEDED", ran.get("cause")
    assert json.loads(ran["output"])["due"] == dict.fromkeys(
        ("emptiness", "retirement", "scaleUp", "garbage", "rebuilding", "disruption", "drift", "anotherSweep"), True
    )
    assert largest("sweep", ran) < MARGIN * LIMIT


def test_the_scale_up_of_the_largest_plan_stays_below_the_limit(account: ScriptedAccount[AllMachines]) -> None:
    machines = account.machines()
    ran = machines.run(machines.scale_up)

    assert ran["status"] == "SUCCEEDED", ran.get("cause")
    launched = [(call["first"], call["count"]) for call in machines.calls["launch_instances"]]
    groups = [number for first, count in launched for number in range(first, first + count)]
    assert (sorted(groups), len(launched)) == (list(range(2 * RECORD.GROUPS_AT_ONCE)), 38)
    assert largest("scale-up", ran) < MARGIN * LIMIT


def test_a_scale_up_all_of_whose_launches_fail_stays_below_the_limit(account: ScriptedAccount[AllMachines]) -> None:
    machines = account.machines(launch_instances=[f"Broken: {'x' * CAUSE}"])
    machines.aws.knob("faults/pace", factor=0.001)
    try:
        ran = machines.run(machines.scale_up)
    finally:
        machines.aws.knob("faults/pace", factor=1)

    assert ran["status"] == "SUCCEEDED", ran.get("cause")
    assert json.loads(ran["output"])["failed"] == 2 * RECORD.GROUPS_AT_ONCE
    assert largest("scale-up that fails", ran) < MARGIN * LIMIT
    assert len(ran["events"]) < 25_000 / 2


def test_the_retirement_of_the_most_claims_stays_below_the_limit(account: ScriptedAccount[AllMachines]) -> None:
    machines = account.machines()
    ran = machines.run(machines.retire, reason="sweep", claims=[*asked(RETIRED_AT_ONCE), *asked(1, "empty")])

    assert ran["status"] == "SUCCEEDED", ran.get("cause")
    assert len(json.loads(ran["output"])["retired"]) == RETIRED_AT_ONCE
    assert largest("retirement", ran) < MARGIN * LIMIT


def test_the_retirement_of_the_most_interrupted_instances_stays_below_the_limit(
    account: ScriptedAccount[AllMachines],
) -> None:
    machines = account.machines()
    ran = machines.run(machines.retire, reason="interruption", claims=[], noted=True, notBefore=0, by="m-1")

    assert ran["status"] == "SUCCEEDED", ran.get("cause")
    assert len(json.loads(ran["output"])["retired"]) == RETIRED_AT_ONCE
    assert largest("retirement of interrupted instances", ran) < MARGIN * LIMIT


def test_a_retirement_all_of_whose_waves_fail_with_the_longest_reason_reports_it(
    account: ScriptedAccount[AllMachines],
) -> None:
    machines = account.machines(evict_pods=[f"Broken: {'x' * CAUSE}"])
    machines.aws.knob("faults/pace", factor=0.001)
    try:
        ran = machines.run(machines.retire, reason="sweep", claims=asked(RETIRED_AT_ONCE))
    finally:
        machines.aws.knob("faults/pace", factor=1)

    assert (ran["status"], ran["error"]) == ("FAILED", "Broken")
    assert largest("retirement that fails", ran) < MARGIN * LIMIT


def test_a_lease_that_such_an_error_leaves_behind_expires(account: ScriptedAccount[AllMachines]) -> None:
    """No Catch releases it. The sweep releases the lease of an execution that has ended; without a sweep the lease
    expires.
    """
    machines = account.machines(resolve_node_classes=[{"classes": "x" * LIMIT, "ready": 1, "refused": 0}])
    begun = time.time()
    ran = machines.run(machines.scale_up)
    assert (ran["status"], ran["error"]) == ("FAILED", "States.DataLimitExceeded")

    lease = machines.lease
    assert lease["holder"]["S"] == ran["executionArn"]
    assert begun < int(lease["leaseUntil"]["N"]) <= time.time() + LEASE_SECONDS

    assert json.loads(machines.run(machines.scale_up)["output"]) == {"joined": True}
    machines.put("LEASE", "scale-up", holder=lease["holder"]["S"], leaseUntil=int(begun) - 1, leaseNumber=1, rings=0)
    machines.scripts = {**machines.scripts, "resolve_node_classes": SCALED_UP["resolve_node_classes"]}
    assert machines.run(machines.scale_up)["status"] == "SUCCEEDED"
    assert "holder" not in machines.lease
