"""Small clusters in which nodes join: a claim, its node, and the pods that it was planned for."""

from datetime import UTC, datetime
from typing import Any

from joiner.cluster import Node, Pod, Requirements, Resources, Taint
from joiner.pools import NodeClaim, NodeClassRef

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
FILLING = {"key": "joiner.dev/filling", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def claim(name: str = "default-a", **fields: Any) -> NodeClaim:
    """Return a claim that was launched as i-1 in us-east-1a, unless an argument differs."""
    launched = {
        "uid": f"uid-of-{name}",
        "class_ref": NodeClassRef("EC2NodeClass", "default"),
        "pool": "default",
        "provider_id": "aws:///us-east-1a/i-1",
        "requirements": Requirements(),
        "labels": {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m5.large"},
        "annotations": {"joiner.dev/lease": "3", "joiner.dev/execution": "up-1"},
    }
    return NodeClaim(name=name, **{**launched, **fields})


def node(name: str = "node-1", **fields: Any) -> Node:
    """Return a node of two cores that is Ready and closed."""
    return Node.from_kube(node_manifest(name, **fields))


def node_manifest(
    name: str = "node-1",
    *,
    provider_id: str = "aws:///us-east-1a/i-1",
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    allocatable: dict[str, str] | None = None,
    ready: bool = True,
    created: str = "2026-11-21T11:59:30Z",
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "creationTimestamp": created,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "us-east-1a"} | (labels or {}),
        },
        "spec": {"providerID": provider_id, "taints": [FILLING] if taints is None else taints},
        "status": {
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"} | (allocatable or {}),
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": created}],
        },
    }


def pod(name: str, **fields: Any) -> Pod:
    return Pod.from_kube(pod_manifest(name, **fields))


def pod_manifest(
    name: str,
    *,
    cpu: str = "1",
    on: str = "",
    spec: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    owner: str = "ReplicaSet",
    created: str = "2026-11-21T11:59:00Z",
    unschedulable: bool = True,
) -> dict[str, Any]:
    """Return a pod of the namespace default that is pending, or runs `on` a node."""
    waiting = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes are available"}
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": "5",
            "labels": labels or {},
            "creationTimestamp": created,
            "ownerReferences": [{"kind": owner, "name": "owner", "uid": "uid-of-owner", "controller": True}],
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": on} if on else {}),
            **(spec or {}),
        },
        "status": {"phase": "Running" if on else "Pending", "conditions": [] if on or not unschedulable else waiting},
    }


def daemon_pod(
    name: str, node_name: str, *, cpu: str = "100m", tolerations: list[dict[str, str]] | None = None, on: str = ""
) -> Pod:
    """Return what the daemon set controller creates for one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    term = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return pod(name, cpu=cpu, on=on, owner="DaemonSet", spec={"affinity": affinity, "tolerations": tolerations or []})


LINGERING = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
STARTUP = Taint("example.com/starting", "NoSchedule")
GPUS = Resources({"nvidia.com/gpu": 1})
