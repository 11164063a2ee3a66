"""What a simulated cluster consists of: two instance types, a pool with its class, a pending pod."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from joiner.adapters.payload import ClusterFacts
from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.cluster import Requirements, Resources
from joiner.names import (
    DOORBELL_WEBHOOK,
    DOORBELL_WEBHOOKS,
    LISTED_PODS_NAMESPACE,
    LISTED_PODS_ROLE,
)
from joiner.pools import Image, ResolvedNodeClass, SecurityGroup, Subnet

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLUSTER = ClusterFacts("demo", "https://127.0.0.1:1", "LS0tLS1CRUdJTg==", "1.36", "10.100.0.0/16")


def offering_type(name: str, cores: int, price: float, *, more: Resources | None = None) -> InstanceType:
    offerings = tuple(Offering(zone, "on-demand", price) for zone in ("us-east-1a", "us-east-1b"))
    resources = Resources.of(cpu=cores, memory=f"{4 * cores}Gi", pods=29) + (more or Resources())
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": name,
        "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-generation": "5",
    }
    return InstanceType(name, labels, resources, resources, offerings)


CATALOGUE = Catalogue.of([offering_type("m5.large", 2, 0.096), offering_type("m5.xlarge", 4, 0.1925)])
"""Two small nodes are a little cheaper than a large one, so two pods get a node each."""
CLASS = ResolvedNodeClass(
    "default",
    "EC2NodeClass",
    subnets=(Subnet("subnet-a", "us-east-1a", 100), Subnet("subnet-b", "us-east-1b", 100)),
    security_groups=(SecurityGroup("sg-1"),),
    images=(
        Image(
            "ami-1",
            "amd64",
            Requirements.from_kube([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]),
        ),
    ),
    instance_profile="nodes",
    generation=1,
)
NODEPOOL: Mapping[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default", "uid": "pool-1"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            }
        }
    },
}
NODECLASS: Mapping[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default", "uid": "class-1"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
    },
}
DOORBELL: Mapping[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": DOORBELL_WEBHOOK},
    "webhooks": [{"name": name} for name in DOORBELL_WEBHOOKS],
}
LISTED_PODS: Mapping[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": LISTED_PODS_ROLE, "namespace": LISTED_PODS_NAMESPACE},
}


def pending(name: str, cpu: str = "1500m") -> dict[str, Any]:
    """Return a pod that is unschedulable; two of them do not fit onto one node of two cores."""
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes available"}
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending", "conditions": [waiting]},
    }
