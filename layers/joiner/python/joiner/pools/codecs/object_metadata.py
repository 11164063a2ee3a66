"""Reads the parts that all our kinds have: metadata, the conditions of the status, and the spec as fields."""

from collections.abc import Mapping
from typing import Any

from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.conditions import Conditions


def read_metadata(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What every object has: the arguments of that name of NodePool and NodeClass."""
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
    """The spec; what stands beside it by mistake is noted."""
    whole = ManifestFields(manifest, "", notes)
    for name in ("apiVersion", "kind", "metadata", "status"):
        whole.raw(name)
    spec = whole.sub("spec")
    whole.close(outside="spec")
    return spec
