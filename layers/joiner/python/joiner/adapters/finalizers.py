"""Joiner's finalizer: remove it from deleted objects, without the finalizers of other controllers."""

from collections.abc import Mapping
from typing import Any

from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, NotFound
from joiner.adapters.kube_kinds import Kind
from joiner.adapters.kube_patches import patch_latest
from joiner.names import TERMINATION_FINALIZER


def delete_and_release(kube: Kube, kind: Kind, name: str, *, uid: str, labels: Mapping[str, str] | None = None) -> None:
    """Delete an object and remove Joiner's finalizer from it. Succeeds if the object is gone, or if another one has its
    name.

    The request that removes the finalizer sets `labels`, by which admission policies select it.
    """

    def find_changes(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
        metadata = manifest["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if metadata["uid"] != uid or TERMINATION_FINALIZER not in finalizers:
            return None
        kept = [each for each in finalizers if each != TERMINATION_FINALIZER]
        changes = {"resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}
        return {"metadata": {**changes, "labels": dict(labels)} if labels else changes}

    try:
        kube.delete(kind, name, uid=uid)
    except (NotFound, Conflict):
        return
    patch_latest(kube, kind, name, find_changes)
