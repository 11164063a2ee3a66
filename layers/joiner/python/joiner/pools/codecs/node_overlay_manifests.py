"""Reads NodeOverlays (karpenter.sh/v1alpha1). Source: Karpenter, "NodeOverlays"."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from joiner.cluster import InvalidField, Requirements
from joiner.cluster.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.invalid_manifests import InvalidManifest
from joiner.pools.node_overlays import ADJUSTMENT, NodeOverlay, Overlays

PRICE: Final = r"\d+(\.\d+)?"
OF_THE_TYPE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


def read_overlays(manifests: Iterable[Mapping[str, Any]]) -> tuple[Overlays, tuple[InvalidManifest, ...]]:
    """Return the valid overlays, and the problems of the others."""
    found: list[NodeOverlay] = []
    problems: list[InvalidManifest] = []
    for manifest in manifests:
        metadata = manifest.get("metadata") or {}
        notes = ManifestProblems(f"NodeOverlay/{metadata.get('name', '')}")
        overlay = _read(str(metadata.get("name", "")), ManifestFields(manifest.get("spec"), "spec", notes), notes)
        if not notes.errors and not metadata.get("deletionTimestamp"):
            found.append(overlay)
        problems.extend(notes.problems)
    return Overlays.of(found), tuple(problems)


def _read(name: str, spec: ManifestFields, notes: ManifestProblems) -> NodeOverlay:
    price = spec.text("price", pattern=PRICE, remedy='give $/h as a text, such as "0.25"')
    adjustment = spec.text(
        "priceAdjustment", pattern=ADJUSTMENT.pattern, remedy='give a signed amount or share, such as "+0.1" or "-10%"'
    )
    if price is not None and adjustment is not None:
        spec.wrong("priceAdjustment", "price and priceAdjustment exclude each other; remove one of them")
    if adjustment is not None and adjustment.endswith("%") and float(adjustment[:-1]) < -100:
        spec.wrong("priceAdjustment", "a price cannot be negative: do not go below -100%")
    capacity = spec.resources("capacity")
    for resource in OF_THE_TYPE:
        if resource in capacity:
            notes.note(
                f"spec.capacity.{resource}",
                spec.raw("capacity")[resource],
                "only extended resources can be added; remove this resource, which the instance type has",
            )
    overlay = NodeOverlay(
        name=name,
        requirements=_requirements(spec, notes),
        price=float(price) if price else None,
        adjustment=adjustment or "",
        capacity=capacity,
        weight=spec.integer("weight", minimum=1, maximum=10_000) or 0,
    )
    spec.close()
    return overlay


def _requirements(spec: ManifestFields, notes: ManifestProblems) -> Requirements:
    expressions = spec.raw("requirements")
    if expressions is None:
        return Requirements()
    if not isinstance(expressions, list) or not all(isinstance(one, Mapping) for one in expressions):
        spec.wrong("requirements", "give a list of requirements (key, operator, values)")
        return Requirements()
    try:
        return Requirements.from_kube(expressions)
    except InvalidField as invalid:
        notes.note(f"spec.requirements{invalid.field}", invalid.value, invalid.remedy)
        return Requirements()
