"""Reads the parts that all kinds of Joiner have: metadata, the conditions of the status, and the spec as fields."""

from collections.abc import Mapping
from typing import Any

from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.conditions import Conditions


def read_metadata(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that NodePool and NodeClass have in common."""
    meta = manifest.get("metadata") or {}
    return {
        "name": meta.get("name", ""),
        "uid": meta.get("uid", ""),
        "generation": meta.get("generation", 0),
        "resource_version": meta.get("resourceVersion", ""),
        "deleting": "deletionTimestamp" in meta,
        "conditions": Conditions.from_kube((manifest.get("status") or {}).get("conditions")),
    }


def read_spec(manifest: Mapping[str, Any], notes: ManifestProblems) -> ManifestFields:
    """Return the spec; note the fields that are beside it by mistake."""
    whole = ManifestFields(manifest, "", notes)
    for name in ("apiVersion", "kind", "metadata", "status"):
        whole.raw(name)
    spec = whole.sub("spec")
    whole.close(outside="spec")
    return spec
