"""A static pool on a deployed stack: `kubectl scale nodepool` launches and removes nodes."""

from collections.abc import Iterator

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, node_class, node_pool

pytestmark = pytest.mark.e2e

SCALE = "/apis/karpenter.sh/v1/nodepools/fixed/scale"


@pytest.fixture
def cleaned(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def ready_nodes(actor: Actor) -> int:
    """Return the number of nodes whose claims are initialized and stay."""
    return sum(
        any(each["type"] == "Initialized" and each["status"] == "True" for each in one["status"]["conditions"])
        for one in actor.claims()
        if "deletionTimestamp" not in one["metadata"] and "conditions" in one.get("status", {})
    )


def test_a_static_pool_follows_its_replicas_in_both_directions(cleaned: Actor) -> None:
    pool = node_pool("fixed", {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]})
    pool["spec"]["replicas"] = 1
    cleaned.create(node_class("fixed"), pool)
    until(lambda: ready_nodes(cleaned) == 1, what="the node of a new static pool", limit=150)

    cleaned.world.kube.merge(SCALE, {"spec": {"replicas": 3}})
    until(lambda: ready_nodes(cleaned) == 3, what="two more nodes", limit=120)
    until(lambda: cleaned.world.kube.get(SCALE)["status"]["replicas"] == 3, what="status.nodes", limit=60)

    cleaned.world.kube.merge(SCALE, {"spec": {"replicas": 1}})
    until(lambda: len(cleaned.claims()) == 1 and len(cleaned.instances()) == 1, what="one node", limit=150)
    cleaned.rest()
    cleaned.assert_at_rest()
