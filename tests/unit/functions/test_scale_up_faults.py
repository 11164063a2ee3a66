"""The crash table of a scale-up: whichever call fails, and wherever the execution is killed, two sweeps later the state
is as without the fault.

One instance a claim, no instance without a claim, every pod running, no lease, wave or launch. Each run tries a seeded
part of the table; `JOINER_CRASHES=all` tries all of it.
"""

import os
import random
from datetime import timedelta

import pytest

from tests.unit.functions.call_faults import Fault, Trouble
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import pending

TRIED = 8  # calls of each fault, of about a hundred
SEED = 20261121
STATES = (
    "find_pending_pods",
    "plan_capacity",
    "record_node_claims",
    "launch_instances",
    "record_launches",
    "check_registration",
)


def a_cluster(make_cluster: MakeCluster) -> SimulatedCluster:
    return make_cluster().prepare(pending("web-1"), pending("web-2"), pending("db-1", cpu="3"))


def two_sweeps(cluster: SimulatedCluster) -> None:
    for number in (1, 2):
        cluster.now += timedelta(seconds=60)
        cluster.sweep(f"up-sweep-{number}")


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_fails_two_sweeps_later_all_is_well(make_cluster: MakeCluster, fault: Fault) -> None:
    with Trouble(clean := a_cluster(make_cluster)) as recorded:
        clean.scale_up("up-1")
    nothing_is_left(clean)
    numbers = range(len(recorded.calls))
    chooser = random.Random(SEED)  # noqa: S311 - a choice of tests
    chosen = numbers if os.environ.get("JOINER_CRASHES") == "all" else chooser.sample(numbers, TRIED)

    wrong = []
    for number in sorted(chosen):
        cluster = a_cluster(make_cluster)
        cluster.stop_after = "nothing" if fault.kills else ""
        with Trouble(cluster, fault, number) as trouble:
            cluster.scale_up("up-1")
        cluster.stop_after = ""
        try:
            two_sweeps(cluster)
            nothing_is_left(cluster)
        except AssertionError as reason:
            wrong.append(f"{number} {trouble.calls[number]}: {reason}")

    assert wrong == []


@pytest.mark.parametrize("state", STATES)
def test_an_execution_that_is_stopped_after_any_state_is_finished_by_the_sweep(
    make_cluster: MakeCluster, state: str
) -> None:
    cluster = a_cluster(make_cluster)
    cluster.stop_after = state
    assert not cluster.scale_up("up-1")
    cluster.stop_after = ""

    two_sweeps(cluster)

    nothing_is_left(cluster)
    assert len(cluster.ec2.fleets) == len({instance["InstanceType"] for instance in cluster.ec2.instances.values()})
