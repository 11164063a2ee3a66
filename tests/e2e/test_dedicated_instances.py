"""Pods that require dedicated hardware get Dedicated Instances; other pods of the same pool do not."""

from collections.abc import Iterator

import pytest

from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

TENANCY = "karpenter.k8s.aws/instance-tenancy"
ALONE = deployment("alone", cpu="1200m", nodeSelector={TENANCY: "dedicated"})
LARGE = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}


@pytest.fixture
def cleaned(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def launched(actor: Actor) -> dict[str, str]:
    """Return the tenancy of each running instance, by the name of its node."""
    return {one["PrivateDnsName"]: one["Placement"]["Tenancy"] for one in actor.instances()}


def labelled(actor: Actor) -> dict[str, str]:
    """Return the tenancy that the label of each node says."""
    return {
        one["metadata"]["name"]: one["metadata"]["labels"][TENANCY]
        for one in actor.nodes()
        if TENANCY in (one["metadata"].get("labels") or {})
    }


def test_pods_that_require_dedicated_hardware_get_dedicated_instances_and_others_do_not(cleaned: Actor) -> None:
    cleaned.create(node_class("plain"), node_pool("plain", LARGE), ALONE)
    cleaned.wait_running(1, "alone")
    cleaned.create(deployment("web", cpu="1200m"))
    cleaned.wait_running(1, "web")
    cleaned.rest()

    assert sorted(launched(cleaned).values()) == ["dedicated", "default"]
    assert labelled(cleaned) == launched(cleaned)
    cleaned.assert_at_rest()


def test_every_node_of_a_pool_that_requires_dedicated_hardware_is_a_dedicated_instance(cleaned: Actor) -> None:
    pool = node_pool("plain", {**LARGE, TENANCY: ["dedicated"]})
    cleaned.create(node_class("plain"), pool, deployment("web", replicas=2, cpu="1200m"))
    cleaned.wait_running(2, "web")
    cleaned.rest()

    assert list(launched(cleaned).values()) == ["dedicated"] * 2
    assert labelled(cleaned) == launched(cleaned)
    cleaned.assert_at_rest()
