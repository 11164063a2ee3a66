"""Graceful expiration from outside: nodes that were launched together are replaced at different times, each before it
leaves, and none before the spread begins.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pytest

from joiner_local.stack.stack_control import LocalStack
from tests.e2e.changing_pools import UNTOUCHED, ChangingPool, claims_of, launch
from tests.e2e.claim_ages import set_claim_age
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class
from tests.e2e.test_consolidated_nodes import notes
from tests.e2e.test_pools_side_by_side import disrupt, disrupt_until

pytestmark = pytest.mark.e2e

NODES: Final = 12
"""So many that chance never lets all of them, or none, be due in the first half of the spread."""


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    deployed.clean()


def test_nodes_that_were_launched_together_are_replaced_at_different_times(
    actor: Actor, bare_stack: LocalStack
) -> None:
    graceful = {"joiner.dev/expiration": "graceful", "joiner.dev/expiration-spread": "50%"}
    pool = ChangingPool(
        "aging",
        ["m5.large"],
        replicas=NODES,
        disruption=UNTOUCHED,
        annotations=graceful,
        template={"expireAfter": "100h"},
    )
    launch(actor, pool)
    old = claims_of(actor, "aging").keys()
    assert len(old) == NODES

    def age(hours: int) -> None:
        for name in old & claims_of(actor, "aging").keys():
            set_claim_age(bare_stack, name, timedelta(hours=hours))

    with watched_evictions(actor) as watched:
        age(49)  # the spread begins at 50 hours
        disrupt(actor)
        assert claims_of(actor, "aging").keys() == old

        age(75)
        disrupt_until(actor, lambda: claims_of(actor, "aging").keys() != old, what="the first nodes replaced")
        left = old & claims_of(actor, "aging").keys()
        assert 0 < len(left) < NODES
        disrupt(actor)
        assert old & claims_of(actor, "aging").keys() == left, "the others are not due"

        age(101)
        disrupt_until(actor, lambda: not old & claims_of(actor, "aging").keys(), what="all nodes replaced")

    assert len(watched.evicted) == NODES
    launching = notes(actor, "DisruptionLaunching")
    assert "Expired: removes 1 node, launches 1 first" in launching
    actor.wait_running(NODES)
