"""Manifests that end-to-end tests create: node classes, pools and Deployments of idle pods."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object

PAUSE: Final = "public.ecr.aws/eks-distro/kubernetes/pause:3.2"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
NEVER_DISRUPTED: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}


def node_class(name: str) -> Object:
    """Return an EC2NodeClass that resolves in the local account."""
    discovered = [{"tags": {"karpenter.sh/discovery": "joiner-demo"}}]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "KarpenterNodeRole-joiner-demo",
        "subnetSelectorTerms": discovered,
        "securityGroupSelectorTerms": discovered,
    }
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec}


def node_pool(
    name: str,
    requirements: Mapping[str, Sequence[str]] | None = None,
    *,
    class_name: str = "",
    disruption: Mapping[str, Any] | None = None,
    **template: Any,
) -> Object:
    """Return a NodePool whose requirements are keys with their allowed values.

    The node class has the name of the pool unless `class_name` is given. `template` are further fields of
    `spec.template.spec`. What is not given has the default of the API server.
    """
    nodes: Object = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class_name or name}}
    if requirements is not None:
        nodes["requirements"] = [
            {"key": key, "operator": "In", "values": list(values)} for key, values in requirements.items()
        ]
    spec: Object = {"template": {"spec": {**nodes, **template}}}
    if disruption is not None:
        spec["disruption"] = dict(disruption)
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def pool_of_many_offerings(name: str, disruption: Mapping[str, Any]) -> Object:
    """Return a NodePool for random changes: nine instance types, spot and on-demand, whose nodes do not expire."""
    requirements = {
        CAPACITY_TYPE: ["spot", "on-demand"],
        "karpenter.k8s.aws/instance-family": ["m5", "c5", "r5"],
        "karpenter.k8s.aws/instance-cpu": ["2", "4", "8"],
    }
    return node_pool(name, requirements, disruption=disruption, expireAfter="Never")


def deployment(name: str, *, replicas: int = 1, cpu: str = "1", memory: str = "64Mi", **spec: Any) -> Object:
    """Return a Deployment of idle pods with requests and without a grace period."""
    container = {"name": "main", "image": PAUSE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    pod = {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "containers": [container], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }
