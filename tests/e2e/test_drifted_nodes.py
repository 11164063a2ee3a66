"""Drift, graceful expiration and node repair, from outside: a changed pool replaces its node after the new node is
ready, and so does a pool whose node is too old; an unhealthy node is replaced at once.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.test_retired_nodes import MACHINES, NODES, assert_gone, name_of, only, running

pytestmark = pytest.mark.e2e

__all__ = ["running"]

PROVISIONERS = "/apis/karpenter.sh/v1alpha5/provisioners"
LIMIT = 180.0
BETWEEN_SWEEPS = 15.0  # seconds; two executions of DISRUPT are at least 30 s apart


def condition(machine: Object, kind: str) -> Any:
    found = (each for each in machine["status"].get("conditions", ()) if each["type"] == kind)
    return next(((each["status"], each["reason"]) for each in found), None)


def is_initialized(machine: Object) -> bool:
    return (condition(machine, "MachineInitialized") or ("",))[0] == "True"


def is_leaving(actor: Actor, machine: str) -> bool:
    found = actor.world.kube.find(f"{MACHINES}/{machine}")
    return found is None or "deletionTimestamp" in found["metadata"]


def await_replacement(actor: Actor, claim: str) -> None:
    """Run sweeps until the claim is deleted; all pods run in the meantime."""
    deadline, swept = time.monotonic() + LIMIT, time.monotonic()
    while not is_leaving(actor, claim):
        assert time.monotonic() < deadline, "the node was not replaced"
        assert actor.running("web") == 3
        if time.monotonic() - swept > BETWEEN_SWEEPS:
            actor.sweep()
            swept = time.monotonic()
        time.sleep(0.2)


def test_a_changed_pool_replaces_its_node_when_the_new_one_is_initialized(running: Actor) -> None:
    kube = running.world.kube
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    assert running.sweep() == "SUCCEEDED"
    assert condition(kube.get(f"{MACHINES}/{claim}"), "MachineDrifted") is None

    kube.merge(f"{PROVISIONERS}/{only(kube.items(PROVISIONERS))}", {"spec": {"labels": {"team": "a"}}})
    assert running.sweep() == "SUCCEEDED"
    assert condition(kube.get(f"{MACHINES}/{claim}"), "MachineDrifted") == ("True", "NodePoolDrifted")

    await_replacement(running, claim)
    others = [each for each in running.claims() if name_of(each) != claim]
    assert [is_initialized(each) for each in others] == [True]
    assert_gone(running, node, claim, instance)
    replaced = kube.get(f"{NODES}/{only(running.nodes())}")
    assert replaced["metadata"]["labels"]["team"] == "a"
    reasons = {event["reason"] for event in running.events() if event["regarding"]["name"] == claim}
    assert "Drifted" in reasons


@pytest.mark.long("a drifted node that is replaced; expiration in unit tests")
def test_an_expired_node_of_a_graceful_pool_is_replaced_when_the_new_one_is_initialized(running: Actor) -> None:
    kube = running.world.kube
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    pool = f"{PROVISIONERS}/{only(kube.items(PROVISIONERS))}"
    graceful = {
        "joiner.dev/expiration": "graceful",
        "joiner.dev/expiration-spread": "0%",
        "joiner.dev/drift": "detect",  # a changed maximum age is a drift, too
    }

    kube.merge(pool, {"metadata": {"annotations": graceful}, "spec": {"ttlSecondsUntilExpired": 1}})
    running.sweep()
    await_replacement(running, claim)
    kube.merge(pool, {"spec": {"ttlSecondsUntilExpired": None}})

    others = [each for each in running.claims() if name_of(each) != claim]
    assert [is_initialized(each) for each in others] == [True]
    assert condition(kube.get(f"{MACHINES}/{name_of(others[0])}"), "DisruptionReason") is None
    assert_gone(running, node, claim, instance)
    notes = [event["note"] for event in running.events() if event["reason"] == "DisruptionLaunching"]
    assert any(note.startswith("Expired: removes 1 node, launches 1 first") for note in notes)
    assert running.running("web") == 3


def test_an_unhealthy_node_is_replaced(running: Actor) -> None:
    kube = running.world.kube
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    since = f"{datetime.now(UTC) - timedelta(minutes=31):%Y-%m-%dT%H:%M:%SZ}"
    bad = {"type": "NetworkingReady", "status": "False", "reason": "Test", "lastTransitionTime": since}
    standing = kube.get(f"{NODES}/{node}")["status"]["conditions"]

    kube.merge(f"{NODES}/{node}/status", {"status": {"conditions": [*standing, bad]}})
    until(
        lambda: any(each["type"] == "NetworkingReady" for each in kube.get(f"{NODES}/{node}")["status"]["conditions"]),
        what="the condition",
    )
    assert running.sweep() == "SUCCEEDED"

    assert_gone(running, node, claim, instance)
    notes = {event["note"] for event in running.events() if event["reason"] == "DisruptionTerminating"}
    assert any(note.startswith("Retiring: its node is unhealthy (condition NetworkingReady is False") for note in notes)
