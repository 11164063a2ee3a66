"""Empty nodes that wait for a budget leave as soon as it allows, not at the next minute.

`JOINER_EMPTY_NODES=584` runs the size of the goal; the default is a small one. The time that each step of the budget
may take is the same.
"""

import os
import time
from collections.abc import Iterator
from math import ceil
from typing import Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

NODES: Final = int(os.environ.get("JOINER_EMPTY_NODES", "12"))
SHARE: Final = 0.1
"""The default budget."""
GOAL: Final = (584, 300.0)
"""Nodes, and the seconds in which they leave."""
AFTER: Final = 5
SETTLED: Final = 20
"""Seconds after which a sweep finds the nodes due: they are empty for 15 seconds at least."""
LAUNCHED_WITHIN: Final = 60.0 + NODES


def budget_steps(nodes: int) -> int:
    """Return how often the budget must allow nodes to leave until none is left.

    >>> budget_steps(12), budget_steps(584)
    (11, 45)
    """
    steps = 0
    while nodes:
        nodes -= ceil(SHARE * nodes)
        steps += 1
    return steps


@pytest.fixture
def standing(deployed: Actor) -> Iterator[Actor]:
    """Nodes with one pod each, in a pool with the default budgets."""
    deployed.clean()
    requirements = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": f"{AFTER}s"}
    deployed.create(node_class("empty"), node_pool("empty", requirements, disruption=disruption, expireAfter="Never"))
    deployed.rest()
    deployed.create(deployment("web", replicas=NODES, cpu="1500m"))
    deployed.wait_running(NODES, limit=LAUNCHED_WITHIN)
    deployed.rest()
    yield deployed
    deployed.clean()


def is_leaving(claim: Object) -> bool:
    """Return whether the claim's node counts against the budgets because it leaves."""
    conditions = {each["type"]: each["status"] for each in claim.get("status", {}).get("conditions", ())}
    return "deletionTimestamp" in claim["metadata"] and conditions.get("InstanceTerminating") != "True"


@pytest.mark.long("the steps of the budget in unit tests, the next sweep in executed state machines")
def test_empty_nodes_leave_one_step_of_the_budget_after_the_other(standing: Actor) -> None:
    assert len(standing.claims()) == NODES
    standing.end("web")
    standing.sweep()  # finds them empty
    time.sleep(SETTLED)
    most = 0

    def running() -> list[Object]:
        nonlocal most
        claims = standing.claims()
        most = max(most, sum(map(is_leaving, claims)))
        return [each for each in claims if "deletionTimestamp" not in each["metadata"]]

    began = time.monotonic()
    standing.knob("schedules/fire", name=standing.outputs["SweepScheduleName"])
    steps = budget_steps(NODES)
    nodes, seconds = GOAL
    within = steps * seconds / budget_steps(nodes)
    until(lambda: not running(), what=f"no empty node that has not begun to leave, of {NODES}", limit=3 * within)
    took = time.monotonic() - began
    print(f"\n{NODES} empty nodes: {took:.0f} s, {took / steps:.1f} s a step; at most {most} were leaving at once")
    assert most <= ceil(SHARE * NODES)
    assert took <= within
    until(standing.is_empty, what="every instance gone", limit=90)
