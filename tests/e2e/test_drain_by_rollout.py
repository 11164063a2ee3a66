"""A drain by a rollout on the deployed stack: the only pod of a Deployment is replaced before it leaves its node."""

from collections.abc import Iterator
from typing import Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import DEPLOYMENTS, Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

LIMIT: Final = 90.0
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"


def single_replica() -> Object:
    web = deployment("web", cpu="1500m")
    web["spec"]["template"]["metadata"]["annotations"] = {"joiner.dev/drain": "rollout"}
    return web


@pytest.fixture
def running(deployed: Actor) -> Iterator[Actor]:
    """One node with the only pod of a Deployment that asks for a rollout."""
    deployed.clean()
    requirements = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}
    deployed.create(node_class("steady"), node_pool("steady", requirements, disruption=NEVER_DISRUPTED))
    deployed.create(single_replica())
    deployed.wait_running(1, "web")
    deployed.rest()
    yield deployed
    deployed.clean()


def test_a_single_replica_runs_all_the_time_while_its_node_is_drained(running: Actor) -> None:
    kube = running.world.kube
    [old], [claim] = running.pods("web"), running.claims()
    available: list[int] = []

    def old_node_is_gone() -> bool:
        available.append(running.running("web"))
        return all(node["metadata"]["name"] != old["spec"]["nodeName"] for node in running.nodes())

    kube.delete(f"{NODE_CLAIMS}/{claim['metadata']['name']}")
    until(old_node_is_gone, what="the drained node gone", limit=LIMIT)
    running.rest()

    [new] = running.pods("web")
    assert min(available) >= 1, "a pod ran all the time"
    assert new["spec"]["nodeName"] != old["spec"]["nodeName"]
    template = kube.get(f"{DEPLOYMENTS}/web")["spec"]["template"]
    assert RESTARTED_AT in template["metadata"]["annotations"]
    of_the_pod = {each["reason"] for each in running.events() if each["regarding"]["name"] == old["metadata"]["name"]}
    assert "RolloutRestarted" in of_the_pod
    assert not {"Evicted", "RolloutNotPossible"} & of_the_pod
    assert (len(running.nodes()), len(running.claims()), len(running.instances())) == (1, 1, 1)
    running.assert_at_rest()
