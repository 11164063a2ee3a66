"""What the API server's validation refuses beyond types: names, labels, selectors, quantities, and what must go together.

As far as a plan depends on it, and as strict: a differential test holds it against a real API server (``tests/e2e/test_reading.py``).
Each rule says the field, what stands there, and the remedy. Source: Kubernetes, ``pkg/apis/*/validation``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from joiner.pools.reading import Notes
from joiner_cli.manifests.rules import claims, nodes, pods, workloads
from joiner_cli.manifests.rules.naming import check_metadata

Check = Callable[[Mapping[str, Any], Notes], None]

CHECKS: Mapping[str, Check] = {
    "v1/Pod": pods.check_pod,
    "v1/Node": nodes.check_node,
    "v1/PersistentVolume": claims.check_volume,
    "v1/PersistentVolumeClaim": claims.check_claim,
    "v1/ReplicationController": workloads.check_replication_controller,
    "v1/LimitRange": nodes.check_limit_range,
    "v1/PodTemplate": workloads.check_pod_template,
    "v1/Service": nodes.check_service,
    "apps/v1/Deployment": workloads.check_workload,
    "apps/v1/ReplicaSet": workloads.check_workload,
    "apps/v1/StatefulSet": workloads.check_stateful_set,
    "apps/v1/DaemonSet": workloads.check_workload,
    "batch/v1/Job": workloads.check_job,
    "policy/v1/PodDisruptionBudget": workloads.check_budget,
    "scheduling.k8s.io/v1/PriorityClass": nodes.check_priority_class,
    "storage.k8s.io/v1/StorageClass": claims.check_storage_class,
    "node.k8s.io/v1/RuntimeClass": nodes.check_runtime_class,
}


def check(kind: str, manifest: Mapping[str, Any], notes: Notes, *, namespaced: bool) -> None:
    """Notes what is wrong with a manifest that its schema has let through."""
    check_metadata(manifest.get("metadata") or {}, notes, kind=kind, namespaced=namespaced)
    if kind in CHECKS:
        CHECKS[kind](manifest, notes)


__all__ = ["check"]
