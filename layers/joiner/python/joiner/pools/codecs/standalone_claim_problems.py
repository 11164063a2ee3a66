"""Finds the mistakes in a NodeClaim or Machine that a user created, before its instance is launched.

A claim with an instance is read without its invalid fields, because the instance must not be lost. A claim without one
is launched only if all of it is valid.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from joiner import names
from joiner.cluster import Requirements
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.codecs.pool_requirements import (
    note_contradictions,
    read_pool_labels,
    read_pool_taints,
    read_requirements,
)
from joiner.pools.invalid_manifests import InvalidManifest
from joiner.pools.label_rules import is_well_known
from joiner.pools.node_claim import ClaimKind, NodeClaim
from joiner.pools.node_class import CLASS_API_VERSION
from joiner.pools.node_pool import CLASS_GROUP, NodePool
from joiner.pools.standalone_claims import DECIDED, awaits_launch

REFERENCES: Final[Mapping[ClaimKind, tuple[str, Mapping[str, str]]]] = {
    "NodeClaim": ("nodeClassRef", {"group": CLASS_GROUP, "kind": "EC2NodeClass"}),
    "Machine": ("machineTemplateRef", {"apiVersion": CLASS_API_VERSION["AWSNodeTemplate"], "kind": "AWSNodeTemplate"}),
}
"""Kind of a claim -> its field that refers to the class, and the only value of each part of the reference."""


def note_standalone_claim(manifest: Mapping[str, Any], claim: NodeClaim, notes: ManifestProblems) -> None:
    """Note every mistake in a standalone claim that waits for its instance."""
    if not awaits_launch(claim):
        return
    spec = ManifestFields(manifest.get("spec"), "spec", notes)
    declared = read_requirements(spec, "requirements", legacy=False)
    note_contradictions(declared, notes, "spec.requirements")
    read_pool_taints(spec, "taints", "startupTaints")
    spec.sub("resources").resources("requests")
    spec.duration("expireAfter", None)
    spec.duration("terminationGracePeriod", None)
    field, parts = REFERENCES[claim.kind]
    reference = spec.sub(field)
    for part, only in parts.items():
        reference.text(part, one_of=(only,))
    labels = {key: value for key, value in claim.labels.items() if key not in names.OURS}
    read_pool_labels(ManifestFields({"labels": labels}, "metadata", notes), "labels", legacy=False)
    _note_labels_of_instance(claim, notes)
    if claim.kind == "Machine" and not claim.pool:
        notes.missing(
            f"metadata.labels[{names.PROVISIONER}]", "a Machine is launched for a Provisioner: set its name here"
        )
    elif claim.kind == "NodeClaim" and not claim.class_ref.name:
        notes.missing("spec.nodeClassRef.name", "set the name of an EC2NodeClass")


def _note_labels_of_instance(claim: NodeClaim, notes: ManifestProblems) -> None:
    """Note the labels that the instance decides and the requirements do not."""
    free = {
        key: value
        for key, value in claim.labels.items()
        if is_well_known(key)
        and key not in DECIDED
        and any(claim.requirements.on(name) != only for name, only in Requirements.from_labels({key: value}).items())
    }
    if free:
        remedy = (
            "they have no effect: the node gets the labels of its instance; to choose the instance, write them in "
            "spec.requirements"
        )
        notes.note("metadata.labels", free, remedy, "warning")


def find_missing_pools(claims: Iterable[NodeClaim], pools: Iterable[NodePool]) -> Iterable[InvalidManifest]:
    """Yield a warning for each standalone claim to launch whose label names no valid pool; it is launched without."""
    present = {pool.key for pool in pools}
    for claim in claims:
        if claim.pool and claim.pool_key not in present and awaits_launch(claim):
            remedy = "there is no such pool, or it is not valid: create it, or remove the label; no budget holds for it"
            yield InvalidManifest(claim.key, f"metadata.labels[{claim.pool_label}]", claim.pool, remedy, "warning")


END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


def refuse_namesakes(claims: Iterable[NodeClaim]) -> tuple[list[NodeClaim], list[InvalidManifest]]:
    """Return the claims whose name no claim of the other kind had before, and the problems of the others.

    Launches, assignments and retirements are recorded by the name of the claim, and so is the tag of its instance. Of
    two claims with one name, the one with the instance counts, otherwise the older one, otherwise the NodeClaim.
    """
    owners: dict[str, NodeClaim] = {}
    kept: list[NodeClaim] = []
    problems: list[InvalidManifest] = []
    for claim in sorted(claims, key=_seniority):
        owner = owners.setdefault(claim.name, claim)
        if owner.kind == claim.kind or claim.provider_id:
            kept.append(claim)
            continue
        remedy = f"{owner.key} has this name, too: create this {claim.kind} with another name. It is ignored until then"
        problems.append(InvalidManifest(claim.key, "metadata.name", claim.name, remedy))
    return kept, problems


def _seniority(claim: NodeClaim) -> tuple[bool, datetime, bool]:
    return not claim.provider_id, claim.created or END_OF_TIME, claim.kind == "Machine"
