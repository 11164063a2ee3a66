"""Validates workloads: replicas, pod templates, and selectors that match the template's labels.

Source: Kubernetes, ``pkg/apis/apps/validation``.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from joiner.cluster import InvalidField, LabelSelector
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import POD, WORKLOAD
from joiner_cli.manifests.validation.metadata_validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    check_annotations,
    check_deletion_cost,
    check_effects,
    check_labels,
    check_selector,
    is_label,
    is_subdomain,
)
from joiner_cli.manifests.validation.pod_validation import check_pod_spec
from joiner_cli.manifests.validation.volume_validation import check_volume_claim_spec

Manifest = Mapping[str, Any]

MAX_INDEXED_PARALLELISM: Final = 100_000


def check_stateful_set(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a StatefulSet."""
    check_workload(manifest, notes)
    spec = manifest.get("spec") or {}
    start = (spec.get("ordinals") or {}).get("start")
    if start is not None and start < 0:
        notes.note("spec.ordinals.start", start, "give a number of at least zero")
    if spec.get("serviceName") and not is_label(spec["serviceName"]):
        notes.note("spec.serviceName", spec["serviceName"], DNS_LABEL)
    for number, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        where = f"spec.volumeClaimTemplates[{number}]"
        name = (claim.get("metadata") or {}).get("name")
        if not is_subdomain(name or ""):
            notes.note(f"{where}.metadata.name", name, DNS_SUBDOMAIN)
        check_volume_claim_spec(claim.get("spec") or {}, notes, f"{where}.spec")


def check_job(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a Job."""
    check_effects(manifest.get("metadata") or {}, notes, "metadata", WORKLOAD)
    spec = manifest.get("spec")
    if not spec:
        notes.missing("spec", "it is missing: write at least its template")
        return
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        if (spec.get(field) or 0) < 0:
            notes.note(f"spec.{field}", spec[field], "give a number of at least zero")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        notes.missing("spec.completions", "a Job with completionMode Indexed needs it")
    if spec.get("completionMode") == "Indexed" and (spec.get("parallelism") or 0) > MAX_INDEXED_PARALLELISM:
        notes.note(
            "spec.parallelism",
            spec["parallelism"],
            f"a Job with completionMode Indexed may run {MAX_INDEXED_PARALLELISM} pods at a time",
        )
    if spec.get("selector") is not None and not spec.get("manualSelector"):
        notes.note("spec.selector", spec["selector"], "the API server generates it; remove it, or set manualSelector")
    check_template(spec.get("template") or {}, notes, "spec.template", ("Never", "OnFailure"))


def check_replication_controller(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a ReplicationController."""
    check_effects(manifest.get("metadata") or {}, notes, "metadata", WORKLOAD)
    spec = manifest.get("spec") or {}
    _check_replicas(spec, notes)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector") or labels
    if not selector:
        notes.note("spec.selector", selector, "it is missing: select the template's labels")
    elif any(labels.get(key) != value for key, value in selector.items()):
        notes.note("spec.template.metadata.labels", labels, "the selector must select the template's labels")
    check_template(spec.get("template") or {}, notes, "spec.template", ("Always",))


def check_pod_template(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a PodTemplate."""
    check_effects(manifest.get("metadata") or {}, notes, "metadata", WORKLOAD)
    check_template(manifest.get("template") or {}, notes, "template", ("Always", "Never", "OnFailure"))


def check_budget(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a PodDisruptionBudget."""
    spec = manifest.get("spec") or {}
    check_selector(spec.get("selector"), notes, "spec.selector")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        notes.note(
            "spec.maxUnavailable",
            spec["maxUnavailable"],
            "minAvailable and maxUnavailable exclude each other; remove one",
        )
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        digits = value.removesuffix("%") if isinstance(value, str) else ""
        if isinstance(value, str) and not (value.endswith("%") and digits.isdecimal() and int(digits) <= 100):
            notes.note(f"spec.{field}", value, 'give a number (5) or a percentage ("50%")')
        elif isinstance(value, int) and value < 0:
            notes.note(f"spec.{field}", value, "give a number of at least zero")


def check_workload(manifest: Manifest, notes: ManifestProblems) -> None:
    """Check a Deployment, ReplicaSet or DaemonSet, or the common part of a StatefulSet."""
    metadata = manifest.get("metadata") or {}
    if not metadata.get("ownerReferences"):  # a ReplicaSet has the annotations of its Deployment
        check_effects(metadata, notes, "metadata", WORKLOAD)
    spec = manifest.get("spec")
    if not spec:
        notes.missing("spec", "it is missing: write at least its selector and template")
        return
    _check_replicas(spec, notes)
    before = len(notes.errors)
    check_selector(spec.get("selector"), notes, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector") or {}
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        notes.note("spec.selector", selector or None, "select the labels of the template")
    elif len(notes.errors) == before and not _selects(selector, labels):
        notes.note("spec.template.metadata.labels", labels, "the selector must select the template's labels")
    claims = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    check_template(spec.get("template") or {}, notes, "spec.template", ("Always",), claims=claims)


def _check_replicas(spec: Manifest, notes: ManifestProblems) -> None:
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        if (spec.get(field) or 0) < 0:
            notes.note(f"spec.{field}", spec[field], "give a number of at least zero")


def _selects(selector: Manifest, labels: Manifest) -> bool:
    try:
        return LabelSelector.from_kube(selector).selects(labels)
    except InvalidField:
        return False


def check_template(
    template: Manifest,
    notes: ManifestProblems,
    path: str,
    policies: tuple[str, ...],
    *,
    claims: Collection[str | None] = (),
) -> None:
    """Note mistakes in a pod template; `policies` are the allowed restart policies, and `claims` the names of the
    volumes that a StatefulSet adds to each pod."""
    metadata, spec = template.get("metadata") or {}, template.get("spec")
    check_labels(metadata.get("labels") or {}, notes, f"{path}.metadata.labels")
    check_annotations(metadata.get("annotations") or {}, notes, f"{path}.metadata.annotations")
    check_deletion_cost(metadata.get("annotations") or {}, notes, f"{path}.metadata.annotations")
    check_effects(metadata, notes, f"{path}.metadata", POD)
    if not spec:
        notes.missing(f"{path}.spec", "it is missing: write at least its containers")
        return
    policy = spec.get("restartPolicy") or "Always"
    if policy not in policies:
        notes.note(f"{path}.spec.restartPolicy", policy, f"use {' or '.join(policies)}")
    check_pod_spec(spec, notes, f"{path}.spec", claims=claims)
