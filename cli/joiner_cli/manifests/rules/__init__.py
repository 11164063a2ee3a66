"""What the API server's validation refuses beyond types: names, labels, selectors, quantities, and what must go together.

As far as a plan depends on it, and as strict: a differential test holds it against a real API server (``tests/e2e/test_reading.py``).
Each rule says the field, what stands there, and the remedy. Source: Kubernetes, ``pkg/apis/*/validation``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from joiner.pools import InvalidManifest, read
from joiner.pools.reading import Notes
from joiner_cli.manifests.rules import claims, nodes, pods, workloads
from joiner_cli.manifests.rules.certainty import caused, certain, pod_of
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


def check_beside(kind: str, manifest: Mapping[str, Any], notes: Notes, *, namespaced: bool, doubts: Sequence[str]) -> None:
    """Notes what else is certainly wrong with a manifest whose schema has refused something; ``doubts`` are fields that nobody can read."""
    found = Notes(notes.subject)
    check(kind, manifest, found, namespaced=namespaced)
    pod = pod_of(kind)
    beside = [one for one in found.errors if certain(one.field, doubts, pod=pod)]
    if kind.startswith("karpenter"):
        declared = {name: part for name, part in manifest.items() if name != "status"}
        beside += [one for one in read([declared]).problems if one.severity == "error" and not absent_class(one)]
    told = tuple(notes.problems)
    notes.problems.extend(one for one in beside if not caused(one, told, doubts))


def absent_class(problem: InvalidManifest) -> bool:
    """Whether only the class of a pool is not among the manifests: on paper it is assumed."""
    return problem.field in ("spec.providerRef", "spec.template.spec.nodeClassRef") and problem.remedy.startswith("there is no such")


__all__ = ["absent_class", "check", "check_beside"]
