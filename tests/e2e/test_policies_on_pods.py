"""The admission policies on bindings, evictions and deletions of pods, against a real API server.

A forbidden request is refused with the policy's message, although RBAC allows it.
"""

from functools import partial
from typing import Any

import pytest

from joiner.cluster.node_shards import shard_of
from joiner.names import BINDERS, DRAINERS, EVICTORS, SHARD, TAINTERS, VIEWERS
from joiner_local.control_plane.kube_api import Object
from tests.e2e.policy_members import (
    DEPLOYMENTS,
    DISRUPTED,
    FILLING,
    LEAVING,
    MERGE,
    NODES,
    PLACED,
    PODS,
    PolicedCluster,
    bind,
    delete_pod,
    evict,
    mutated,
    refused,
    restart,
    taint,
)

pytestmark = pytest.mark.e2e

ROLLOUT = {"joiner.dev/drain": "rollout"}


def test_a_pod_is_bound_only_to_a_joiner_node_with_the_filling_taint(cluster: PolicedCluster) -> None:
    binder = cluster.member(VIEWERS, BINDERS)
    bind(binder, cluster.pod(), cluster.node(FILLING))

    message = "Joiner binds only to its own nodes while they have the taint joiner.dev/filling"
    refused(message, lambda: bind(binder, cluster.pod(), cluster.node()))  # ours, open
    refused(message, lambda: bind(binder, cluster.pod(), cluster.node(DISRUPTED)))
    refused(message, lambda: bind(binder, cluster.pod(), cluster.node(labels={})))  # not a node of Joiner
    refused(
        message, lambda: bind(binder, cluster.pod(), cluster.node(FILLING, labels={}))
    )  # not a node of Joiner, but with its taint


def test_a_binding_cannot_bypass_the_node_check_or_change_the_pod(cluster: PolicedCluster) -> None:
    binder, filling, foreign = cluster.member(VIEWERS, BINDERS), cluster.node(FILLING), cluster.node(labels={})

    refused("must have the label joiner.dev/placed=", lambda: bind(binder, cluster.pod(), foreign, labels={}))
    both = {PLACED: shard_of(filling), "app": "victim"}
    refused("and no other of its own", lambda: bind(binder, cluster.pod(), filling, labels=both))
    refused("must have no annotations", lambda: bind(binder, cluster.pod(), filling, annotations={"any": "thing"}))


def test_a_binding_is_compared_with_the_nodes_of_its_shard(cluster: PolicedCluster) -> None:
    """Nodes that Joiner registered have their shard as a label, and a binding has that of its node."""
    binder = cluster.member(VIEWERS, BINDERS)
    filling, opened = cluster.node(FILLING), cluster.node()
    for node in (filling, opened):
        shard = {"metadata": {"labels": {SHARD: shard_of(node)}}}
        cluster.admin.call("PATCH", f"{NODES}/{node}", shard, content_type=MERGE)
        cluster.await_view(node)

    bind(binder, cluster.pod(), filling)
    message = "Joiner binds only to its own nodes while they have the taint joiner.dev/filling"
    refused(message, lambda: bind(binder, cluster.pod(), opened))
    another = str((int(shard_of(opened).replace("x", "0")) + 1) % 10)
    refused(
        f"must have the label joiner.dev/placed={shard_of(opened)}",
        lambda: bind(binder, cluster.pod(), opened, labels={PLACED: another}),
    )
    refused(
        f"the shard of node {opened} is {shard_of(opened)}, by its name",
        lambda: binder.call(
            "PATCH", f"{NODES}/{opened}", {"metadata": {"labels": {SHARD: another}}}, content_type=MERGE
        ),
    )


def test_a_wrong_shard_that_a_person_wrote_stops_no_drain(cluster: PolicedCluster) -> None:
    node, tainter = cluster.node(), cluster.member(VIEWERS, TAINTERS)
    wrong = {"metadata": {"labels": {SHARD: "x" if shard_of(node) != "x" else "0"}}}
    cluster.admin.call("PATCH", f"{NODES}/{node}", wrong, content_type=MERGE)

    taint(tainter, node, DISRUPTED)

    taints = cluster.admin.call("GET", f"{NODES}/{node}")["spec"]["taints"]
    assert {each["key"] for each in taints} >= {DISRUPTED["key"]}


def test_other_identities_bind_without_restrictions(cluster: PolicedCluster) -> None:
    bind(cluster.admin, cluster.pod(), cluster.node(labels={}), labels={})


def test_a_pod_is_evicted_only_from_a_joiner_node_with_the_disrupted_taint(cluster: PolicedCluster) -> None:
    evictor = cluster.member(VIEWERS, EVICTORS)
    leaving = cluster.node(DISRUPTED)
    evict(evictor, cluster.pod(leaving), leaving)

    message = "Joiner evicts only from its own nodes while they have the taint karpenter.sh/disrupted"
    for node in (cluster.node(), cluster.node(FILLING), cluster.node(labels={}), cluster.node(DISRUPTED, labels={})):
        refused(message, partial(evict, evictor, cluster.pod(node), node))


def test_an_eviction_names_its_node(cluster: PolicedCluster) -> None:
    evictor, other = cluster.member(VIEWERS, EVICTORS), cluster.node()

    message = "must have the label joiner.dev/disrupted=true, and its node as annotation joiner.dev/node"
    refused(message, lambda: evict(evictor, cluster.pod(other), other, labels={}))
    refused(message, lambda: evict(evictor, cluster.pod(other), other, annotations={}))


def test_a_pod_is_deleted_only_from_a_joiner_node_with_the_disrupted_taint(cluster: PolicedCluster) -> None:
    drainer = cluster.member(VIEWERS, DRAINERS)
    delete_pod(drainer, cluster.pod(cluster.node(DISRUPTED)))

    message = "Joiner deletes only from its own nodes while they have the taint karpenter.sh/disrupted"
    for node in (cluster.node(), cluster.node(FILLING), cluster.node(labels={}), cluster.node(DISRUPTED, labels={})):
        refused(message, partial(delete_pod, drainer, cluster.pod(node)))
    refused("is on no node", lambda: delete_pod(drainer, cluster.pod()))


def test_a_labelled_pod_is_not_deleted_after_its_node_lost_the_taint(cluster: PolicedCluster) -> None:
    drainer, node = cluster.member(VIEWERS, DRAINERS, TAINTERS), cluster.node(DISRUPTED)
    pod = cluster.pod(node)
    drainer.call("PATCH", f"{PODS}/{pod}", {"metadata": {"labels": LEAVING}}, content_type=MERGE)
    taint(drainer, node)  # the retirement is taken back
    cluster.await_view(node)

    refused("may not be deleted from node", lambda: drainer.call("DELETE", f"{PODS}/{pod}"))


def test_a_pod_is_not_deleted_without_the_label_or_changed_otherwise(cluster: PolicedCluster) -> None:
    drainer = cluster.member(VIEWERS, DRAINERS)
    pod = cluster.pod(cluster.node(DISRUPTED))

    def patch(**metadata: Any) -> Object:
        return drainer.call("PATCH", f"{PODS}/{pod}", {"metadata": metadata}, content_type=MERGE)

    message = "may not change"
    refused(
        "must have the label joiner.dev/disrupted=true before Joiner deletes it",
        lambda: drainer.call("DELETE", f"{PODS}/{pod}"),
    )
    refused(message, lambda: patch(labels={"app": "victim"}))  # without ours
    refused(message, lambda: patch(labels=LEAVING, finalizers=["example.com/hold"]))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1"}
    refused(message, lambda: patch(labels=LEAVING, ownerReferences=[owner]))
    cluster.admin.call("PATCH", f"{PODS}/{pod}", {"metadata": {"labels": {"app": "web"}}}, content_type=MERGE)
    refused(message, lambda: patch(labels={**LEAVING, "app": "victim"}))
    refused(message, lambda: patch(labels={**LEAVING, "app": None}))
    more = {
        "metadata": {"labels": LEAVING},
        "spec": {"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Exists"}]},
    }
    refused(message, lambda: drainer.call("PATCH", f"{PODS}/{pod}", more, content_type=MERGE))


def test_a_pod_is_deleted_although_mutating_admission_changes_its_metadata(
    cluster: PolicedCluster,
) -> None:
    drainer, pod = cluster.member(VIEWERS, DRAINERS), cluster.pod(cluster.node(DISRUPTED))
    path = f"{PODS}/{pod}"

    with mutated(cluster.admin, pod):
        drainer.call("PATCH", path, {"metadata": {"labels": LEAVING}}, content_type=MERGE)
        changed = cluster.admin.get(path)["metadata"]
        drainer.call("DELETE", path)

    assert changed["labels"] == {**LEAVING, "added": "by-admission"}
    assert changed["annotations"]["added"] == "by-admission"


def test_only_a_deployment_that_asks_for_it_is_restarted(cluster: PolicedCluster) -> None:
    evictor = cluster.member(VIEWERS, EVICTORS)

    restarted = restart(evictor, cluster.deployment(**ROLLOUT, other="kept"))

    annotations = restarted["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {
        **ROLLOUT,
        "other": "kept",
        "kubectl.kubernetes.io/restartedAt": "2026-11-21T12:00:00Z",
    }
    message = "its template lacks the annotation joiner.dev/drain=rollout"
    refused(message, lambda: restart(evictor, cluster.deployment()))
    refused(message, lambda: restart(evictor, cluster.deployment(**{"joiner.dev/drain": "evict"})))


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"replicas": 5}},
        {"spec": {"paused": True}},
        {"spec": {"minReadySeconds": 3}},
        {"spec": {"revisionHistoryLimit": 0}},
        {"spec": {"progressDeadlineSeconds": 30}},
        {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
        {"spec": {"template": {"spec": {"hostNetwork": True}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}},
        {"spec": {"template": {"metadata": {"annotations": {"other": "value"}}}}},
        {"spec": {"template": {"metadata": {"annotations": {"joiner.dev/drain": None}}}}},
        {"spec": {"template": {"metadata": {"labels": {"more": "labels"}}}}},
        {"metadata": {"labels": {"app": "victim"}}},
        {"metadata": {"annotations": {"any": "thing"}}},
        {"metadata": {"finalizers": ["example.com/hold"]}},
    ],
)
def test_nothing_but_the_time_of_the_restart_is_changed(cluster: PolicedCluster, change: Object) -> None:
    evictor, name = cluster.member(VIEWERS, EVICTORS), cluster.deployment(**ROLLOUT)

    refused(
        "Joiner changes only the annotation kubectl.kubernetes.io/restartedAt of its template",
        lambda: evictor.call("PATCH", f"{DEPLOYMENTS}/{name}", change, content_type=MERGE),
    )
