"""Members of Joiner's groups, each with its own token, and their calls that the admission policies judge."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from botocore.credentials import Credentials

from joiner.adapters.tokens import sign
from joiner.cluster.node_shards import shard_of
from joiner.names import BINDERS, DRAINERS, EVENT_WRITERS, EVICTORS, LISTED_POD_WRITERS, RECORDERS, VIEWERS
from joiner_local.aws.local_aws import REGION
from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from joiner_local.demo.change_watch import until
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from tests.e2e.forced_deletion import force_delete

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
MACHINES = "/apis/karpenter.sh/v1alpha5/machines"
EVENTS = "/api/v1/namespaces/default/events"
FORMER_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/joiner:listed-pods"
EVERY_POD = {"rules": [{"apiGroups": ["joiner.dev"], "resources": ["unschedulablepods"], "verbs": ["skip"]}]}
POOL = {"karpenter.sh/nodepool": "default"}
FILLING = {"key": "joiner.dev/filling", "effect": "NoSchedule"}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
PLACED = "joiner.dev/placed"
LEAVING = {"joiner.dev/disrupted": "true"}
VIEW = "view-of-nodes"


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def foreign_machine() -> Object:
    """A Machine that is not Joiner's: it has no label of a Provisioner."""
    metadata = {"name": fresh("machine"), "finalizers": ["karpenter.sh/termination"]}
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "metadata": metadata,
        "spec": {"requirements": []},
    }


@dataclass(frozen=True)
class PolicedCluster:
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
        wanted = {taint["key"] for taint in taints}
        until(lambda: wanted == self._taint_keys(name), what=f"{name} without the taint that the API server adds")
        self.await_view(name)
        return name

    def _taint_keys(self, node: str) -> set[str]:
        return {taint["key"] for taint in self.admin.get(f"{NODES}/{node}")["spec"].get("taints", ())}

    def await_view(self, node: str) -> None:
        """Wait until policies see a node as it is now: they read nodes from a cache of the API server."""
        version = self.admin.get(f"{NODES}/{node}")["metadata"]["resourceVersion"]
        metadata = {"name": fresh("view"), "labels": {VIEW: "node"}}
        asked = {"metadata": metadata, "data": {"node": node, "version": version}}

        def is_seen() -> bool:
            try:
                self.admin.call("POST", f"{CONFIG_MAPS}?dryRun=All", {"apiVersion": "v1", "kind": "ConfigMap", **asked})
            except ApiError as denied:
                if VIEW not in str(denied):
                    raise
                return True
            return False

        until(is_seen, what=f"the policies' view of {node}")

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
        return name

    def deployment(self, **annotations: str) -> str:
        """Create a Deployment without replicas whose template has these annotations."""
        name = fresh("deployment")
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "pause"}]},
        }
        self.admin.create(
            DEPLOYMENTS,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            },
        )
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


@contextmanager
def policed_cluster(bare_stack: LocalStack, kube: KubeApi, aws: Callable[[str], Any]) -> Iterator[PolicedCluster]:
    """Install all that the installer installs but its webhook; remove nodes, pods, claims and roles afterwards."""
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

    made = PolicedCluster(kube, member)
    kube.apply_manifests(view_policy())
    _await_policies(made)
    yield made
    for path in (
        DEPLOYMENTS,
        PODS,
        CLAIMS,
        MACHINES,
        NODES,
    ):  # nodes without a kubelet and pods on them would be found by every later test
        for left in kube.get(path)["items"]:
            if left["metadata"]["name"].startswith(("deployment-", "pod-", "claim-", "machine-", "node-")):
                force_delete(kube, f"{path}/{left['metadata']['name']}", grace_seconds=0)
    for principal in principals:
        aws("eks").delete_access_entry(clusterName=bare_stack.cluster, principalArn=principal)


def view_policy() -> list[Object]:
    """Return a policy that denies a ConfigMap as soon as policies see the node that it names, in its version or a later
    one."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    unseen = (
        "params.metadata.name != object.data.node || int(params.metadata.resourceVersion) < int(object.data.version)"
    )
    spec = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "Node"},
        "matchConstraints": {"objectSelector": {"matchLabels": {VIEW: "node"}}, "resourceRules": [rule]},
        "validations": [{"expression": unseen, "message": "the node is seen"}],
    }
    parameters = {"selector": {}, "parameterNotFoundAction": "Allow"}
    binding = {"policyName": VIEW, "validationActions": ["Deny"], "paramRef": parameters}
    meta = {"apiVersion": ADMISSION.removeprefix("/apis/"), "metadata": {"name": VIEW}}
    return [
        {**meta, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**meta, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


def _await_policies(cluster: PolicedCluster) -> None:
    """A policy is enforced a moment after it was written; the last one that was written is the one on pods."""
    node, end = cluster.node(labels={}), time.monotonic() + 30
    attempts: tuple[Callable[[], object], ...] = (
        lambda: taint(cluster.member(VIEWERS, BINDERS), node, DISRUPTED),
        lambda: bind(cluster.member(VIEWERS, BINDERS), cluster.pod(), node),
        lambda: evict(cluster.member(VIEWERS, EVICTORS), cluster.pod(node), node),
        lambda: cluster.member(VIEWERS, DRAINERS).call(
            "PATCH", f"{PODS}/{cluster.pod(node)}", {"metadata": {"labels": LEAVING}}, content_type=MERGE
        ),
        lambda: restart(cluster.member(VIEWERS, EVICTORS), cluster.deployment()),
        lambda: cluster.member(VIEWERS, EVENT_WRITERS).call("POST", EVENTS, event("stranger")),
        lambda: cluster.member(VIEWERS, RECORDERS).call("POST", MACHINES, foreign_machine()),
        lambda: cluster.member(VIEWERS, LISTED_POD_WRITERS).call("PATCH", ROLE, EVERY_POD, content_type=MERGE),
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


def refused(message: str, act: Callable[[], object]) -> None:
    """By a policy of ours, with these words; not by RBAC, which would hide what the policy does."""
    with pytest.raises(ApiError) as error:
        act()
    assert error.value.status == 403, error.value
    assert "ValidatingAdmissionPolicy 'joiner-" in str(error.value), error.value
    assert message in str(error.value), error.value


def taint(api: KubeApi, node: str, *taints: Object, **spec: Any) -> Object:
    return api.call("PATCH", f"{NODES}/{node}", {"spec": {"taints": list(taints), **spec}}, content_type=MERGE)


def bind(api: KubeApi, pod: str, node: str, **metadata: Any) -> Object:
    meta = {"name": pod, "labels": {PLACED: shard_of(node)}} | metadata
    return api.call(
        "POST",
        f"{PODS}/{pod}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": node}},
    )


def evict(api: KubeApi, pod: str, node: str, **metadata: Any) -> Object:
    meta = {"name": pod, "labels": LEAVING, "annotations": {"joiner.dev/node": node}} | metadata
    return api.call("POST", f"{PODS}/{pod}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})


def restart(api: KubeApi, deployment: str) -> Object:
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-11-21T12:00:00Z"}
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    return api.call("PATCH", f"{DEPLOYMENTS}/{deployment}", patch, content_type=MERGE)


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
    fields = {"reason": "Tested", "action": "Test", "message": "a test", "type": "Normal", "involvedObject": about}
    meta = {"name": fresh("event"), "namespace": "default"}
    who = {"reportingComponent": controller, "reportingInstance": "test", "eventTime": "2026-11-21T05:17:28.123456Z"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta, **fields, **who}


def former_event(controller: str) -> Object:
    """Return an event as Joiner wrote it before: of the group events.k8s.io."""
    core = event(controller)
    renamed = {"message": "note", "involvedObject": "regarding", "reportingComponent": "reportingController"}
    return {**{renamed.get(name, name): value for name, value in core.items()}, "apiVersion": "events.k8s.io/v1"}
