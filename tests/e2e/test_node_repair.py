"""Node repair from outside, of several pools at a time: which statuses of `Ready` count and for how long, what a pool
tolerates, and that nothing is repaired while too many nodes of a pool are unhealthy.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import UNTOUCHED, ChangingPool, annotate_pool, claims_of, launch, node_of
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class
from tests.e2e.test_consolidated_nodes import notes

pytestmark = pytest.mark.e2e

NODES: Final = "/api/v1/nodes"
FAULT: Final = "local.joiner.dev/fault"
"""While a node has this label, KWOK leaves its condition as it is."""
LIMIT: Final = 90.0


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    deployed.clean()


def ready(actor: Actor, node: str) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = actor.world.kube.get(f"{NODES}/{node}")["status"]["conditions"]
    return next(each for each in conditions if each["type"] == "Ready")


def fall_ill(actor: Actor, pool: str, status: str, minutes: int) -> None:
    """Give the nodes of a pool this status of Ready, since so many minutes."""
    since = f"{datetime.now(UTC) - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    bad = {"type": "Ready", "status": status, "reason": "Test", "message": "", "lastTransitionTime": since}
    nodes = [node_of(claim) for claim in claims_of(actor, pool).values()]
    for name in nodes:
        path = f"{NODES}/{name}"
        node = actor.world.kube.merge(path, {"metadata": {"labels": {FAULT: "held"}}})
        others = [each for each in node["status"]["conditions"] if each["type"] != "Ready"]
        actor.world.kube.merge(f"{path}/status", {"status": {"conditions": [*others, bad]}})
    assert {ready(actor, name)["status"] for name in nodes} == {status}


def recover(actor: Actor, *pools: str) -> None:
    for pool in pools:
        for claim in claims_of(actor, pool).values():
            actor.world.kube.merge(f"{NODES}/{node_of(claim)}", {"metadata": {"labels": {FAULT: None}}})


def test_nodes_that_are_not_ready_for_longer_than_their_pool_tolerates_are_replaced_unless_they_are_many(
    actor: Actor,
) -> None:
    tolerances = {"patient": "Ready=Never", "strict": "Ready=5m"}
    pools = tuple(
        ChangingPool(
            name,
            ["m5.large"],
            replicas=2 if name == "many" else 1,
            disruption=UNTOUCHED,
            annotations={"joiner.dev/node-repair-tolerances": tolerances[name]} if name in tolerances else {},
        )
        for name in ("false", "unknown", "recent", "patient", "strict", "many")
    )
    launch(actor, *pools)
    before = {each.name: set(claims_of(actor, each.name)) for each in pools}
    ill = {
        "false": ("False", 31),
        "unknown": ("Unknown", 31),
        "recent": ("False", 28),
        "patient": ("False", 300),
        "strict": ("Unknown", 6),
        "many": ("False", 31),
    }
    for pool, (status, minutes) in ill.items():
        fall_ill(actor, pool, status, minutes)

    assert actor.sweep() == "SUCCEEDED"
    replaced = {"false", "unknown", "strict"}

    def is_replaced(pool: str) -> bool:
        now = set(claims_of(actor, pool))
        return len(now) == 1 and not now & before[pool]

    until(lambda: all(map(is_replaced, replaced)), what="the repaired nodes", limit=LIMIT)
    actor.rest()
    assert {pool for pool in before if not before[pool] & set(claims_of(actor, pool))} == replaced
    assert actor.sweep() == "SUCCEEDED"
    actor.rest()
    kept = set(before) - replaced
    assert {pool for pool in kept if before[pool] == set(claims_of(actor, pool))} == kept
    terminating = notes(actor, "DisruptionTerminating")
    assert "its node is unhealthy (condition Ready is False since" in terminating
    assert "its node is unhealthy (condition Ready is Unknown since" in terminating
    assert notes(actor, "NodeRepairBlocked") == "2 of 2 nodes are unhealthy, more than 20 %: none is repaired"

    one, two = claims_of(actor, "many").values()  # one unhealthy node of two is a fifth, rounded up
    actor.world.kube.merge(f"{NODES}/{node_of(one)}", {"metadata": {"labels": {FAULT: None}}})
    until(lambda: ready(actor, node_of(one))["status"] == "True", what="a healthy node", limit=LIMIT)
    assert actor.sweep() == "SUCCEEDED"
    until(lambda: two["metadata"]["name"] not in claims_of(actor, "many"), what="the other node repaired", limit=LIMIT)
    actor.rest()
    assert one["metadata"]["name"] in claims_of(actor, "many")

    annotate_pool(actor, "patient", node_repair_tolerances=None)
    assert actor.sweep() == "SUCCEEDED"
    until(lambda: is_replaced("patient"), what="the node that is not tolerated any more", limit=LIMIT)
    recover(actor, "recent")
    actor.rest()
    actor.wait_running(7)
