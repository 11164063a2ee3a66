"""Pods of a node that cannot be drained: rules of other pods hold for where they run, not for where they would move."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from joiner.cluster import Pod
from joiner.lifecycle.retirement import as_draining
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import find_staying_pods
from joiner.planning.output.unplanned_classes import find_moving_classes
from joiner.pools import NodeClaim, NodeClassRef
from tests.unit.planning.drawn_clusters import (
    ZONE,
    ZONES,
    Json,
    affinity,
    near,
    node,
    node_pool,
    planned,
    pod,
    running,
    spread,
)

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
HELD = "pod default/web-0 is held by its disruption budget web, which needs 1 healthy pods and has 1 currently"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def web(**metadata: Any) -> dict[str, Any]:
    """Return a pod that runs on the node that is being drained."""
    found = running("web-0", "going", cpu="1")
    return {**found, "metadata": {**found["metadata"], "ownerReferences": [OWNER], **metadata}}


def cluster(*listed: Json, blockers: tuple[str, ...] = (HELD,)) -> dict[str, Any]:
    """Return a cluster with a node in the second zone that is being drained, and a free one in the first."""
    claim = NodeClaim("default-9", NodeClassRef("EC2NodeClass", "default"))
    conditions = as_draining(replace(claim, node_name="going"), blockers, at=AT).conditions.to_kube()
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    leaving = node("going", zone=ZONES[1], taints=[DISRUPTED])
    return {
        "pods": list(listed),
        "nodepools": [node_pool()],
        "nodes": [leaving, node("free", zone=ZONES[0])],
        "nodeclaims": [
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"name": "default-9", "labels": {"karpenter.sh/nodepool": "default"}},
                "spec": {"nodeClassRef": reference, "requirements": []},
                "status": {
                    "providerID": leaving["spec"]["providerID"],
                    "nodeName": "going",
                    "conditions": [
                        {"type": kind, "status": "True", "reason": kind, "message": ""}
                        for kind in ("Launched", "Registered", "Initialized")
                    ]
                    + conditions,
                },
            }
        ],
    }


BESIDE_WEB = affinity(podAffinity=[near(ZONE, "web")])


def test_a_pod_that_must_run_beside_a_pod_that_cannot_leave_gets_a_node_in_its_zone() -> None:
    plan = planned(cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB)))

    assert [(one.zone, one.pods) for one in plan.nodes] == [(ZONES[1], ("default/cache",))]
    assert plan.existing == ()


def test_a_pod_beside_one_that_leaves_now_follows_it() -> None:
    plan = planned(cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB), blockers=()))

    assert plan.nodes == ()
    assert {key for one in plan.existing for key in one.pods} == {"default/web-0", "default/cache"}


def test_a_pod_that_cannot_leave_has_a_place_elsewhere_if_no_other_pod_names_it() -> None:
    plan = planned(cluster(web(), pod("other", app="other", cpu="1")))

    assert {key for one in plan.existing for key in one.pods} == {"default/web-0", "default/other"}


def test_anti_affinity_and_spreads_count_a_pod_where_it_cannot_leave() -> None:
    apart = pod("apart", app="apart", cpu="1", **affinity(podAntiAffinity=[near(ZONE, "web")]))
    shy = web()
    shy["spec"] = {**shy["spec"], **affinity(podAntiAffinity=[near(ZONE, "loud")])}
    own = pod("web-1", cpu="1", topologySpreadConstraints=[spread()])

    assert [one.node for one in planned(cluster(web(), apart)).existing] == ["free"]
    assert [one.node for one in planned(cluster(shy, pod("loud", app="loud", cpu="1"))).existing] == ["free"]
    for world in (cluster(web(), apart), cluster(shy, pod("loud", app="loud")), cluster(web(), own)):
        assert [one.name for one in find_staying_pods(Snapshot.from_lists(world))] == ["web-0"]


def test_a_pod_that_asks_not_to_be_disrupted_is_counted_where_it_runs() -> None:
    protected = web(annotations={"karpenter.sh/do-not-disrupt": "true"})
    plan = planned(cluster(protected, pod("cache", app="cache", cpu="1", **BESIDE_WEB)))

    assert [(one.zone, one.pods) for one in plan.nodes] == [(ZONES[1], ("default/cache",))]


def test_no_pod_is_planned_on_the_node_that_is_drained() -> None:
    tolerant: dict[str, Any] = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {ZONE: ZONES[1]}}
    plan = planned(cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB, **tolerant)))

    assert plan.existing == ()
    assert [one.zone for one in plan.nodes] == [ZONES[1]]


def test_pods_that_cannot_leave_are_not_planned_again_until_something_changes() -> None:
    world = cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB))
    snapshot = Snapshot.from_lists(world)

    assert [one.name for one in find_staying_pods(snapshot)] == ["web-0"]
    assert find_moving_classes(planned(world), snapshot) == {Pod.from_kube(web()).class_key}
