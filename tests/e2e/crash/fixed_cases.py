"""The cases of the crash table that are tried each time: of each state machine, and of each function besides."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.e2e.crash.fault_scenarios import CONSOLIDATION, FAULT_SCENARIOS, RETIRE, SCALE_UP, FaultScenario
from tests.e2e.crash.fault_table import FaultCase, FaultPlace

NAMED: Final[Mapping[str, FaultScenario]] = {each.name: each for each in FAULT_SCENARIOS}
INTERRUPTION: Final = "retirement after a Health event"


def _call(scenario: str, caller: str, what: str, fault: str, *, nth: int = 1) -> FaultCase:
    return FaultCase(FaultPlace(NAMED[scenario], caller, what, nth), fault)


def _stop(scenario: str, state: str, when: str) -> FaultCase:
    return FaultCase(FaultPlace(NAMED[scenario], "", state), when)


QUICK: Final[Sequence[FaultCase]] = (
    _call(SCALE_UP.name, "ring_doorbell", "states StartExecution", "answer lost"),
    _call(SCALE_UP.name, "launch_instances", "ec2 CreateFleet", "answer lost"),
    _call("scale-up after a refresh", "refresh_catalogue", "s3 PUT catalogue", "timed out"),
    _call(RETIRE.name, "evict_pods", "kube POST pods/eviction", "answer lost"),
    _call(INTERRUPTION, "handle_interruption", "dynamodb UpdateItem RETIREMENT", "refused"),
    _call("sweep after a launch without a record", "survey_instances", "ec2 DescribeInstances", "throttled"),
    _call("sweep after a launch without a record", "collect_garbage", "ec2 TerminateInstances", "answer lost"),
    _call("sweep that gives up a node", "terminate_instances", "ec2 TerminateInstances", "timed out"),
)
"""In `make test`, by `test_quick_crashes`: a ring, a launch, a refresh of the catalogue, an eviction, an interruption,
a sweep, its garbage, and a node that is given up.
"""

FURTHER: Final[Sequence[FaultCase]] = (
    _stop(SCALE_UP.name, "Record launches so far", "entered"),
    _stop(SCALE_UP.name, "Launch some groups", "working"),
    _call("scale-up whose nodes join late", "ring_doorbell", "states SendTaskSuccess", "refused"),
    _call(INTERRUPTION, "handle_interruption", "states StartExecution", "timed out"),
    _stop(RETIRE.name, "Evict pods", "left"),
    _call("sweep after a retirement without an end", "rebuild_claims", "kube POST machines", "answer lost"),
    _call("retirement of empty nodes", "terminate_instances", "ec2 TerminateInstances", "answer lost"),
    _call("retirement of empty nodes", "forget_nodes", "kube DELETE nodes", "refused"),
    _call("sweep that finds failing nodes", "survey_cluster", "kube LIST nodes", "refused"),
    _call("scale-up after a refresh", "refresh_catalogue", "ec2 DescribeInstanceTypes", "throttled"),
    _call("scale-up of several rounds", "launch_instances", "ec2 CreateFleet", "answer lost", nth=3),
    _call("retirement that a budget blocks", "evict_pods", "kube POST pods/eviction", "timed out", nth=2),
    _stop(CONSOLIDATION.name, "Mark nodes", "left"),
    _stop(CONSOLIDATION.name, "Retire nodes", "entered"),
)
"""In `make test-all`, by `test_crash_table`, besides those of `QUICK`."""

FIXED: Final[Sequence[FaultCase]] = (*QUICK, *FURTHER)
"""All that are tried in each run of all tests."""
