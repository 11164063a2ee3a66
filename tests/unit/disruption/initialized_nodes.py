"""Clusters of initialized nodes with their claims, as manifests."""

from collections.abc import Mapping
from typing import Any

from tests.unit.planning.drawn_clusters import CATALOGUE, HOST, ZONE, ZONES, Json, running

LONG_AGO = "2026-11-21T08:00:00Z"


def claim_and_node(
    name: str,
    *,
    kind: str = "s.large",
    zone: str = ZONES[0],
    capacity_type: str = "on-demand",
    pool: str = "default",
    initialized: bool = True,
    initialized_at: str = LONG_AGO,
    annotations: Mapping[str, str] | None = None,
    catalogue: Mapping[str, Json] = CATALOGUE,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a NodeClaim ``name`` and its Node ``node-name``, with the labels and resources of its instance type."""
    labels = {
        **catalogue[kind]["labels"],
        ZONE: zone,
        "karpenter.sh/capacity-type": capacity_type,
        "karpenter.sh/nodepool": pool,
    }
    provider_id = f"aws:///{zone}/i-{name}"
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": initialized_at} for type_ in ("Launched", "Registered")
    ]
    conditions.append(
        {"type": "Initialized", "status": "True" if initialized else "Unknown", "lastTransitionTime": initialized_at}
    )
    amounts = {part: catalogue[kind][part] for part in ("capacity", "allocatable")}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": initialized_at},
        "spec": {"nodeClassRef": reference},
        "status": {"providerID": provider_id, "nodeName": f"node-{name}", "conditions": conditions, **amounts},
    }
    joined = {**labels, HOST: f"node-{name}", "karpenter.sh/registered": "true"}
    if initialized:
        joined["karpenter.sh/initialized"] = "true"
    node = {
        "metadata": {
            "name": f"node-{name}",
            "labels": joined,
            "annotations": dict(annotations or {}),
            "creationTimestamp": initialized_at,
        },
        "spec": {"providerID": provider_id},
        "status": {**amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return claim, node


def owned(pod: Mapping[str, Any], kind: str = "ReplicaSet", name: str = "") -> dict[str, Any]:
    """Return the pod with a controller."""
    owner = {"kind": kind, "name": name or pod["metadata"]["labels"]["app"], "uid": "uid-owner", "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}


def replica(name: str, where: str, **fields: Any) -> dict[str, Any]:
    """Return a running pod of a ReplicaSet."""
    return owned(running(name, where, **fields))


def daemon_pod(name: str, where: str, **fields: Any) -> dict[str, Any]:
    return owned(running(name, where, **{"cpu": "100m", "memory": "64Mi", **fields}), "DaemonSet")
