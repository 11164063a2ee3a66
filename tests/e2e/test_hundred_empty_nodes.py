"""Many empty nodes that may all leave at once: one execution retires them, with few transitions.

`JOINER_EMPTY_AT_ONCE=20` runs a smaller cluster.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import ChangingPool
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class

pytestmark = pytest.mark.e2e

NODES: Final = int(os.environ.get("JOINER_EMPTY_AT_ONCE", "100"))
TRANSITIONS: Final = 40 + 2 * NODES
EMPTY_AT_ONCE: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]}
SETTLED: Final = 20
"""Seconds after which a sweep finds the nodes due: they are empty for 15 seconds at least."""


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    deployed.clean()


def removals(actor: Actor) -> list[Mapping[str, Any]]:
    """Return the executions that retired claims because they were empty, with their events, oldest first."""
    machine = actor.outputs["RetireEmptyArn"]
    listed = actor.knob("express-executions", stateMachineArn=machine)["executions"]
    described = [
        actor.knob("express-executions", stateMachineArn=machine, executionArn=each["executionArn"])["executions"][0]
        for each in listed
    ]
    return sorted(described, key=lambda each: str(each["startDate"]))


@pytest.mark.long("a hundred claims with scripted functions in test_retirement_executed")
def test_a_hundred_empty_nodes_leave_in_one_execution_with_few_transitions(actor: Actor) -> None:
    pool = ChangingPool("empty", ["m5.large"], replicas=NODES, cpu="1500m", disruption=EMPTY_AT_ONCE)
    actor.create(pool.manifest())
    actor.rest()
    actor.create(pool.deployment())
    actor.wait_running(NODES, limit=120 + NODES)
    actor.rest()
    claims = {str(each["metadata"]["name"]) for each in actor.claims()}
    assert len(claims) == NODES
    known = {each["executionArn"] for each in removals(actor)}
    actor.end("empty")
    actor.sweep()  # finds them empty
    time.sleep(SETTLED)

    began = time.monotonic()
    assert actor.sweep() == "SUCCEEDED"
    until(actor.is_empty, what=f"{NODES} nodes gone", limit=120 + NODES)
    took = time.monotonic() - began
    actor.rest()

    begun = [each for each in removals(actor) if each["executionArn"] not in known]
    retired = [json.loads(each["output"])["retired"] for each in begun]
    assert [len(each) for each in retired] == [NODES]
    assert set(retired[0]) == claims
    entered = [event for event in begun[0]["events"] if "stateEnteredEventDetails" in event]
    print(f"\n{NODES} empty nodes: gone after {took:.1f} s, one execution with {len(entered)} transitions")
    assert len(entered) <= TRANSITIONS
