"""A pool whose nodes never became ready for a pod class is closed to these pods; all else goes on."""

from typing import Any

from joiner.catalogue import Catalogue
from joiner.cluster import Pod
from joiner.planning import Plan, Snapshot
from joiner.planning.inputs.held_pools import find_edition, with_held_pools
from joiner.planning.planner import plan
from joiner.pools.pool_holds import OF_REPLICAS, PoolHold
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json, node_pool, pod
from tests.unit.planning.test_in_flight import assigned, claim

NOW = 1000
WEB, OTHER = pod("web-0", cpu="1"), pod("other", cpu="2")
HELD = "its last 2 nodes here in a row never became ready for it, so none is launched until 1970-01-01T00:33:20Z"


def pool(name: str = "default", *, generation: int = 1, **spec: Any) -> Json:
    made = node_pool(name, **spec)
    return {**made, "metadata": {**made["metadata"], "generation": generation}}


def node_class(generation: int) -> Json:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "generation": generation},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    }


def daemon_set(generation: int) -> Json:
    metadata = {"name": "plug-in", "namespace": "kube-system", "uid": "uid-plug-in", "generation": generation}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}}


def overlay(**spec: Any) -> Json:
    return {"metadata": {"name": "own"}, "spec": {"requirements": [], **spec}}


def cluster(*waiting: Json, **lists: Any) -> dict[str, Any]:
    return {
        "pods": list(waiting),
        "nodepools": [pool()],
        "ec2nodeclasses": [node_class(1)],
        "daemonsets": [daemon_set(1)],
        **lists,
    }


def hold(*, key: str = "NodePool/default", device: str = "", until: int = 2000, of: Json | None = WEB) -> PoolHold:
    snapshot = Snapshot.from_lists(cluster(nodepools=[pool(key.partition("/")[2])]))
    return PoolHold(
        pool=key,
        class_key=Pod.from_kube(of).class_key if of else OF_REPLICAS,
        device=device,
        edition=find_edition(snapshot, snapshot.pools[0]),
        launched_at=0,
        failed_at=NOW - 10,
        failures=2,
        until=until,
        claim="default-1",
        cause="the node is not Ready. Check its conditions",
    )


def planned(lists: Json, *holds: PoolHold, **more: Any) -> Plan:
    snapshot = with_held_pools(Snapshot.from_lists(lists, **more), holds, NOW)
    return plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES)


def placed(made: Plan) -> dict[str, str]:
    """Return the pool of the new node of each pod."""
    return {each: node.pool for node in made.nodes for each in node.pods}


def reasons(made: Plan) -> dict[str, list[str]]:
    return {one.pod: [str(reason) for reason in one.reasons] for one in made.pending}


def test_a_pool_launches_no_node_for_pods_of_a_held_class_and_does_for_all_others() -> None:
    made = planned(cluster(WEB, OTHER), hold())

    assert placed(made) == {"default/other": "NodePool/default"}
    ends = "or until the pool, its class, a DaemonSet or a NodeOverlay is changed"
    cause = "NodeClaim default-1: the node is not Ready. Check its conditions"
    assert reasons(made) == {"default/web-0": [f"default: {HELD}, {ends}. {cause}"]}


def test_another_pool_launches_the_node_even_if_it_is_preferred_less() -> None:
    made = planned(cluster(WEB, nodepools=[pool(weight=10), pool("spare")]), hold())

    assert placed(made) == {"default/web-0": "NodePool/spare"}


def test_only_pods_that_request_the_missing_device_wait() -> None:
    assert placed(planned(cluster(WEB), hold(device="smarter-devices/fuse"))) == {"default/web-0": "NodePool/default"}
    assert placed(planned(cluster(WEB), hold(device="cpu"))) == {}


def test_a_hold_that_ended_and_an_unknown_pool_hold_nothing() -> None:
    assert placed(planned(cluster(WEB), hold(until=NOW), hold(key="NodePool/gone"))) == {
        "default/web-0": "NodePool/default"
    }


def test_a_correction_of_pool_class_daemon_set_or_overlay_ends_the_hold() -> None:
    recreated = {**pool(), "metadata": {**pool()["metadata"], "uid": "another"}}
    open_again = {"default/web-0": "NodePool/default"}

    assert placed(planned(cluster(WEB), hold())) == {}
    assert placed(planned(cluster(WEB, nodepools=[pool(generation=2)]), hold())) == open_again
    assert placed(planned(cluster(WEB, nodepools=[recreated]), hold())) == open_again
    assert placed(planned(cluster(WEB, ec2nodeclasses=[node_class(2)]), hold())) == open_again
    assert placed(planned(cluster(WEB, daemonsets=[daemon_set(2)]), hold())) == open_again
    assert placed(planned(cluster(WEB, daemonsets=[]), hold())) == open_again
    assert placed(planned(cluster(WEB, nodeoverlays=[overlay(price="0.5")]), hold())) == {}
    assert placed(planned(cluster(WEB, nodeoverlays=[overlay(capacity={"a.b/c": "1"})]), hold())) == open_again


def test_pods_of_a_held_class_use_existing_capacity_of_the_pool() -> None:
    snapshot = cluster(WEB, nodeclaims=[claim()])
    made = planned(snapshot, hold(), assignments=assigned([WEB], 1))

    assert made.pending == () and placed(made) == {}


def test_replicas_of_a_static_pool_wait_with_the_reason() -> None:
    lists = cluster(nodepools=[pool(replicas=2)])

    assert len(planned(lists).nodes) == 2
    made = planned(lists, hold(of=None))

    assert made.nodes == ()
    (short,) = made.unlaunched
    assert (short.owner, short.nodes) == ("NodePool/default", 2)
    assert "none is launched until 1970-01-01T00:33:20Z" in short.reason


def test_the_stored_snapshot_keeps_the_generation_of_daemon_sets() -> None:
    """Else every hold of a plan in a cluster with daemon sets were of another edition."""
    lists = cluster(WEB)
    stored = Snapshot.trim(lists)

    assert placed(planned(stored, hold())) == {}
