"""The crash table of a scale-up: whichever call fails, and wherever the execution is killed, two sweeps later the state
is as without the fault.

One instance a claim, no instance without a claim, every pod running, no lease, wave or launch. Each run tries a seeded
part of the table; `JOINER_CRASHES=all` tries all of it.
"""

import os
import random
from datetime import timedelta

import pytest

from tests.unit.functions.conftest import MakeWorld
from tests.unit.functions.faults import Fault, Trouble
from tests.unit.functions.scale_up import SimulatedCluster, pending
from tests.unit.functions.simulation_invariants import nothing_is_left

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


def a_world(make_world: MakeWorld) -> SimulatedCluster:
    return make_world().prepare(pending("web-1"), pending("web-2"), pending("db-1", cpu="3"))


def two_sweeps(world: SimulatedCluster) -> None:
    for number in (1, 2):
        world.now += timedelta(seconds=60)
        world.sweep(f"up-sweep-{number}")


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_fails_two_sweeps_later_all_is_well(make_world: MakeWorld, fault: Fault) -> None:
    with Trouble(clean := a_world(make_world)) as recorded:
        clean.scale_up("up-1")
    nothing_is_left(clean)
    numbers = range(len(recorded.calls))
    chosen = numbers if os.environ.get("JOINER_CRASHES") == "all" else random.Random(SEED).sample(numbers, TRIED)  # noqa: S311 - a choice of tests

    wrong = []
    for number in sorted(chosen):
        world = a_world(make_world)
        world.stop_after = "nothing" if fault.kills else ""
        with Trouble(world, fault, number) as trouble:
            world.scale_up("up-1")
        world.stop_after = ""
        try:
            two_sweeps(world)
            nothing_is_left(world)
        except AssertionError as reason:
            wrong.append(f"{number} {trouble.calls[number]}: {reason}")

    assert wrong == []


@pytest.mark.parametrize("state", STATES)
def test_an_execution_that_is_stopped_after_any_state_is_finished_by_the_sweep(
    make_world: MakeWorld, state: str
) -> None:
    world = a_world(make_world)
    world.stop_after = state
    assert not world.scale_up("up-1")
    world.stop_after = ""

    two_sweeps(world)

    nothing_is_left(world)
    assert len(world.ec2.fleets) == len({instance["InstanceType"] for instance in world.ec2.instances.values()})
