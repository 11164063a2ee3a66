"""The checks of each kind of object, and how they apply to a manifest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from joiner.planning.inputs.capacity_buffers import metadata_notes
from joiner.pools import InvalidManifest, read_manifests
from joiner.pools.codecs.declared_objects import CORRECT_CLASS
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.node_overlay_manifests import read_overlays
from joiner_cli.manifests.validation import node_validation, pod_validation, volume_validation, workload_validation
from joiner_cli.manifests.validation.independent_errors import is_independent, may_be_consequence, pod_spec_path
from joiner_cli.manifests.validation.metadata_validation import check_metadata

ManifestCheck = Callable[[Mapping[str, Any], ManifestProblems], None]

CHECKS: Mapping[str, ManifestCheck] = {
    "v1/Pod": pod_validation.check_pod,
    "v1/Node": node_validation.check_node,
    "v1/PersistentVolume": volume_validation.check_volume,
    "v1/PersistentVolumeClaim": volume_validation.check_volume_claim,
    "v1/ReplicationController": workload_validation.check_replication_controller,
    "v1/LimitRange": node_validation.check_limit_range,
    "v1/PodTemplate": workload_validation.check_pod_template,
    "v1/Service": node_validation.check_service,
    "apps/v1/Deployment": workload_validation.check_workload,
    "apps/v1/ReplicaSet": workload_validation.check_workload,
    "apps/v1/StatefulSet": workload_validation.check_stateful_set,
    "apps/v1/DaemonSet": workload_validation.check_workload,
    "batch/v1/Job": workload_validation.check_job,
    "policy/v1/PodDisruptionBudget": workload_validation.check_budget,
    "scheduling.k8s.io/v1/PriorityClass": node_validation.check_priority_class,
    "storage.k8s.io/v1/StorageClass": volume_validation.check_storage_class,
    "node.k8s.io/v1/RuntimeClass": node_validation.check_runtime_class,
}


def check_manifest(kind: str, manifest: Mapping[str, Any], notes: ManifestProblems, *, namespaced: bool) -> None:
    """Note the problems of a manifest that its schema accepts."""
    check_metadata(manifest.get("metadata") or {}, notes, kind=kind, namespaced=namespaced)
    if kind in CHECKS:
        CHECKS[kind](manifest, notes)


def check_independent_fields(
    kind: str, manifest: Mapping[str, Any], notes: ManifestProblems, *, namespaced: bool, doubts: Sequence[str]
) -> None:
    """Note further problems of a manifest that its schema refuses, where they do not depend on ``doubts`` (unparsed
    fields).
    """
    found = ManifestProblems(notes.subject)
    check_manifest(kind, manifest, found, namespaced=namespaced)
    pod = pod_spec_path(kind)
    beside = [one for one in found.problems if is_independent(one.field, doubts, pod=pod)]
    beside += [
        replace(one, object=notes.subject)  # the name may be wrong, too
        for one in _read_declared(kind, {name: part for name, part in manifest.items() if name != "status"})
        if one.severity != "info" and not is_absent_class(one)
    ]
    reported = tuple(notes.problems)
    notes.problems.extend(one for one in beside if not may_be_consequence(one, reported, doubts))


def _read_declared(kind: str, manifest: Mapping[str, Any]) -> Iterable[InvalidManifest]:
    """Return the problems that the reader of a kind finds in one object; none for kinds of Kubernetes."""
    short = kind.rpartition("/")[2]
    if short == "NodeOverlay":
        return read_overlays([manifest])[1]
    if short == "CapacityBuffer":
        return metadata_notes(manifest) if isinstance(manifest.get("metadata"), Mapping) else ()
    return read_manifests([manifest]).problems if kind.startswith("karpenter") else ()


CLASS_FIELDS: Final = (
    "spec.providerRef",
    "spec.template.spec.nodeClassRef",
    "spec.nodeClassRef",
    "spec.machineTemplateRef",
)


def is_absent_class(problem: InvalidManifest) -> bool:
    """Return whether the problem is an invalid node class, or a missing one, for which a plan assumes defaults."""
    return problem.field in CLASS_FIELDS and problem.remedy.startswith(("there is no such", CORRECT_CLASS))
