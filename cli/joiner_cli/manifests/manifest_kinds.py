"""Decides which kinds a plan reads, which it ignores, and which do not exist.

>>> recognize_kind("apps/v1", "Deployment"), recognize_kind("v1", "Secret")
('apps/v1/Deployment', None)
>>> recognize_kind("argoproj.io/v1alpha1", "Rollout") is None
True
>>> recognize_kind("apps/v1", "Deploymnt")
Traceback (most recent call last):
joiner_cli.manifests.manifest_kinds.UnknownKind: kind: apps/v1 has no such kind; did you mean "Deployment"?
"""

from collections.abc import Mapping
from typing import Any, Final

from joiner.planning import LISTED
from joiner.pools.suggestions import suggest_nearest
from joiner_cli.manifests.openapi_schemas import Schemas

WORKLOADS: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
PLURALS: Final[Mapping[str, str]] = {kind: plural for plural, kind in LISTED.items()}
"""The snapshot's list for each kind."""


class UnknownKind(ValueError):
    """The kind does not exist in this API version; ``field`` is the wrong one of `apiVersion` and `kind`."""

    def __init__(self, field: str, value: str, remedy: str) -> None:
        self.field, self.value, self.remedy = field, value, remedy
        super().__init__(f"{field}: {remedy}")


def recognize_kind(version: str, kind: str) -> str | None:
    """Return ``version/Kind`` of a kind that plans read, or None for a kind that they ignore.

    Raises ``UnknownKind`` if Kubernetes or Karpenter has no such kind.
    """
    schemas = Schemas.packaged()
    name = f"{version}/{kind}"
    if name in schemas.kinds:
        return name
    if version in schemas.others:
        if kind in schemas.others[version]:
            return None
        there = [one.rpartition("/")[2] for one in schemas.kinds if one.rpartition("/")[0] == version]
        raise UnknownKind(
            "kind", kind, f"{version} has no such kind{suggest_nearest(kind, [*there, *schemas.others[version]])}"
        )
    right = _find_versions(kind)
    if right and _is_kubernetes_group(version):
        raise UnknownKind("apiVersion", version, f"use {' or '.join(right)}")
    if version.partition("/")[0] in ("karpenter.sh", "karpenter.k8s.aws"):
        ours = [one.rpartition("/")[2] for one in schemas.kinds if one.startswith("karpenter")]
        raise UnknownKind("kind", kind, f"{version} has no such kind{suggest_nearest(kind, ours)}")
    return None


def suggest_type(field: str, manifest: Mapping[str, Any]) -> str:
    """Return what to write into `apiVersion` or `kind`: the versions that have the kind of the manifest, if any do.

    >>> suggest_type("apiVersion", {"kind": "Pod"}), suggest_type("kind", {"apiVersion": "v1"})
    ('write apiVersion: v1', 'set the kind of the object')
    """
    versions = _find_versions(manifest.get("kind")) if field == "apiVersion" else []
    return f"write {field}: {' or '.join(versions)}" if versions else f"set the {field} of the object"


def _find_versions(kind: object) -> list[str]:
    """Return the API versions of a kind that plans read."""
    return sorted(one.rpartition("/")[0] for one in Schemas.packaged().kinds if one.rpartition("/")[2] == kind)


def _is_kubernetes_group(version: str) -> bool:
    """Return whether a group belongs to Kubernetes or Karpenter; kinds of other groups may have the same names."""
    group = version.rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io") or group in ("karpenter.sh", "karpenter.k8s.aws")


def describe_non_object(document: object) -> str:
    """Return the remedy for a document that is not an object."""
    if isinstance(document, list) and document and all(isinstance(one, Mapping) for one in document):
        return (
            "write it as {apiVersion: v1, kind: List, items: [...]}, or write each object as a separate document, with "
            "--- between them"
        )
    return "write an object here, with apiVersion, kind, metadata and spec"
