"""Manifests of a node whose drain is blocked: the node, its NodeClaim, and the pods that run there."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from joiner.lifecycle.retirement import as_draining
from joiner.pools import NodeClaim, NodeClassRef
from tests.unit.planning.drawn_clusters import ZONES, Json, node

AT: Final = datetime(2026, 11, 28, 12, tzinfo=UTC)
HELD: Final = "pod default/web-0 is held by its disruption budget web, which needs 1 healthy pods and has 1 currently"
OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
DISRUPTED: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def on_draining_node(pod: Mapping[str, Any], where: str = "going", **metadata: Any) -> dict[str, Any]:
    """Return the pod as one of a ReplicaSet that runs on the node that is drained."""
    return {
        **pod,
        "metadata": {**pod["metadata"], "ownerReferences": [OWNER], **metadata},
        "spec": {**pod["spec"], "nodeName": where},
        "status": {"phase": "Running"},
    }


def draining_node(
    name: str = "going",
    *,
    zone: str = ZONES[1],
    blockers: tuple[str, ...] = (HELD,),
    until: datetime | None = None,
    metadata: Json | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> tuple[Json, Json]:
    """Return a node that is drained, and its claim, which names the ``blockers``. ``until`` is the deadline of the
    drain that the retirement knows."""
    claim = replace(NodeClaim(f"{name}-claim", NodeClassRef("EC2NodeClass", "default")), node_name=name)
    draining = as_draining(claim, blockers, at=AT, until=until).conditions.to_kube()
    leaving = node(name, zone=zone, taints=[DISRUPTED], labels=labels)
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": ""}
        for kind in ("Launched", "Registered", "Initialized")
    ]
    return leaving, {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": claim.name,
            "labels": {"karpenter.sh/nodepool": "default"},
            "deletionTimestamp": f"{AT:%Y-%m-%dT%H:%M:%SZ}",
            **(metadata or {}),
        },
        "spec": {"nodeClassRef": reference, "requirements": [], **spec},
        "status": {
            "providerID": leaving["spec"]["providerID"],
            "nodeName": name,
            "conditions": conditions + draining,
        },
    }
