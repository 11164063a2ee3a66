"""What keeps a node from consolidation, from outside and of several pools at a time: `karpenter.sh/do-not-disrupt` on
the node, its claim and a pod, also for a time; and a CapacityBuffer whose virtual pods have no other place.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import POOL, ChangingPool, claims_of, disrupt_to, launch, node_of, types_by_pool
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class
from tests.e2e.test_consolidated_nodes import notes
from tests.e2e.test_pools_side_by_side import disrupt

pytestmark = pytest.mark.e2e

BUFFERS: Final = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"
TEMPLATES: Final = "/api/v1/namespaces/default/podtemplates"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
LIMIT: Final = 120.0
OVERSIZED: Final[dict[str, Any]] = {"before": ["m5.xlarge"], "then": ["m5.large"]}
LARGE, SMALL = ["m5.xlarge"], ["m5.large"]


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    for path in (BUFFERS, TEMPLATES):
        deployed.world.kube.delete(path)
    deployed.clean()


def protected(name: str, value: str = "") -> ChangingPool:
    """Return a pool of one node that is larger than its pod needs, which has the annotation with this value."""
    return ChangingPool(name, **OVERSIZED, pod_annotations={DO_NOT_DISRUPT: value} if value else {})


def buffer_for(pool: str, cpu: str) -> list[tuple[str, Object]]:
    """Return a pod template for nodes of a pool and a buffer of one such pod, each with the path of its collection."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    pod = {"containers": [container], "nodeSelector": {POOL: pool}}
    template = {"metadata": {"name": pool}, "template": {"spec": pod}}
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": pool},
        "spec": {"podTemplateRef": {"name": pool}, "replicas": 1},
    }
    return [(TEMPLATES, template), (BUFFERS, buffer)]


def is_provisioned(actor: Actor, buffer: str) -> bool:
    """Run one sweep; return whether running nodes have the capacity for the buffer."""
    assert actor.sweep() == "SUCCEEDED"
    actor.rest()
    conditions = actor.world.kube.get(f"{BUFFERS}/{buffer}").get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Provisioning", "True") for each in conditions)


def test_annotations_on_node_claim_and_pod_keep_a_node_until_they_end_and_a_buffer_keeps_its_capacity(
    actor: Actor,
) -> None:
    kube = actor.world.kube
    pools = (
        protected("free"),
        protected("node"),
        protected("claim"),
        protected("pod", "true"),
        protected("hours", "4h"),
        protected("second", "1s"),
        # 1.1 vCPUs of a pod and one of the buffer fit on an m5.xlarge, and on no m5.large
        ChangingPool("buffered", **OVERSIZED),
        # both fit on one m5.large
        ChangingPool("fitting", **OVERSIZED),
    )
    launch(actor, *pools)
    for path, made in (*buffer_for("buffered", "1"), *buffer_for("fitting", "300m")):
        kube.create(path, made)
    until(lambda: is_provisioned(actor, "buffered") and is_provisioned(actor, "fitting"), what="buffers", limit=LIMIT)
    assert types_by_pool(actor) == {each.name: LARGE for each in pools}
    [(claim_name, _)] = claims_of(actor, "claim").items()
    [of_node] = claims_of(actor, "node").values()
    marked = {"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}}
    kube.merge(f"{CLAIMS}/{claim_name}", marked)
    kube.merge(f"/api/v1/nodes/{node_of(of_node)}", marked)
    for each in pools:
        each.widen(actor)
    kept = dict.fromkeys(("node", "claim", "pod", "hours", "buffered"), LARGE)
    wanted = kept | dict.fromkeys(("free", "second", "fitting"), SMALL)

    with watched_evictions(actor) as watched:
        disrupt_to(actor, wanted)
        disrupt(actor)

        assert types_by_pool(actor) == wanted
        assert {name.split("-")[0] for name in watched.evicted} == {"free", "second", "fitting"}
        assert notes(actor, "DisruptionBlocked").count(DO_NOT_DISRUPT) >= 4

        unmarked = {"metadata": {"annotations": {DO_NOT_DISRUPT: None}}}
        kube.merge(f"{CLAIMS}/{claim_name}", unmarked)
        kube.delete(f"{BUFFERS}/buffered")
        wanted |= {"claim": SMALL, "buffered": SMALL}
        disrupt_to(actor, wanted)

    until(lambda: is_provisioned(actor, "fitting"), what="a buffer beside the moved pod", limit=LIMIT)
    assert {name.split("-")[0] for name in watched.evicted} == {"free", "second", "fitting", "claim", "buffered"}
    actor.wait_running(len(pools))
