"""Finds the mistakes in a NodeClaim or Machine that a user created, before its instance is launched.

A claim with an instance is read without its invalid fields, because the instance must not be lost. A claim without one
is launched only if all of it is valid.
"""

from collections.abc import Mapping
from typing import Any

from joiner import names
from joiner.cluster import Requirements
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.codecs.pool_requirements import (
    note_contradictions,
    read_pool_labels,
    read_pool_taints,
    read_requirements,
)
from joiner.pools.node_claim import NodeClaim
from joiner.pools.standalone_claims import awaits_launch


def note_standalone_claim(manifest: Mapping[str, Any], claim: NodeClaim, notes: ManifestProblems) -> None:
    """Note every mistake in a standalone claim that waits for its instance."""
    if not awaits_launch(claim):
        return
    spec = ManifestFields(manifest.get("spec"), "spec", notes)
    declared = read_requirements(spec, "requirements", legacy=False)
    note_contradictions(Requirements.from_kube(declared), notes, "spec.requirements")
    read_pool_taints(spec, "taints", "startupTaints")
    spec.sub("resources").resources("requests")
    spec.duration("expireAfter", None)
    spec.duration("terminationGracePeriod", None)
    labels = {key: value for key, value in claim.labels.items() if key not in names.OURS}
    read_pool_labels(ManifestFields({"labels": labels}, "metadata", notes), "labels", legacy=False)
    if claim.kind == "Machine" and not claim.pool:
        notes.missing(
            f"metadata.labels[{names.PROVISIONER}]", "a Machine is launched for a Provisioner: set its name here"
        )
    elif claim.kind == "NodeClaim" and not claim.class_ref.name:
        notes.missing("spec.nodeClassRef.name", "set the name of an EC2NodeClass")
