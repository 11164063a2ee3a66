"""A recommendation of EC2 to replace a Spot Instance, in a pool with *replace first*, from outside."""

from collections.abc import Iterator
from typing import Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import (
    UNTOUCHED,
    ChangingPool,
    claims_of,
    condition_of,
    instance_of,
    notes_on,
)
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import INSTANCE_TYPE, node_class
from tests.e2e.test_pools_side_by_side import disrupt

pytestmark = pytest.mark.e2e

ZONE: Final = "topology.kubernetes.io/zone"
LIMIT: Final = 120.0


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    deployed.clean()


def is_initialized(claim: Object) -> bool:
    return condition_of(claim, "Initialized")[0] == "True"


def test_a_recommendation_of_ec2_replaces_the_node_first_and_in_another_offering(actor: Actor) -> None:
    spot = ("spot",)
    pool = ChangingPool(
        "risky",
        ["m5.large", "c5.large"],
        disruption=UNTOUCHED,
        annotations={"joiner.dev/rebalance": "replace"},
        capacity_types=spot,
    )
    made = pool.manifest()
    requirements = made["spec"]["template"]["spec"]["requirements"]
    requirements[0]["values"] = list(spot)
    actor.create(made)
    actor.rest()
    actor.create(pool.deployment())
    actor.wait_running(1)
    actor.rest()
    [(old, claim)] = claims_of(actor, "risky").items()
    [pod] = actor.pods("risky")
    initialized_first: list[bool] = []

    def is_over() -> bool:
        found = claims_of(actor, "risky")
        moved = pod["metadata"]["uid"] not in {each["metadata"]["uid"] for each in actor.pods("risky")}
        if moved and not initialized_first:
            initialized_first.append(any(is_initialized(one) for name, one in found.items() if name != old))
        return old not in found

    with watched_evictions(actor):
        actor.knob("rebalance", instanceId=instance_of(claim))
        until(lambda: actor.item("RECOMMENDED", old) != {}, what="the record of the recommendation", limit=LIMIT)
        assert actor.sweep() == "SUCCEEDED"
        until(is_over, what="the node replaced", limit=LIMIT)
        actor.rest(limit=LIMIT)

    assert initialized_first == [True], "the pod left after its new node was initialized"
    [new] = claims_of(actor, "risky").values()
    before, after = ([each["metadata"]["labels"][key] for key in (INSTANCE_TYPE, ZONE)] for each in (claim, new))
    assert before != after
    assert "Rebalance: removes 1 node, launches 1 first" in notes_on(actor, old) + notes_on(
        actor, pod["spec"]["nodeName"]
    )
    disrupt(actor)
    assert [each["metadata"]["name"] for each in claims_of(actor, "risky").values()] == [new["metadata"]["name"]]
    actor.wait_running(1)
