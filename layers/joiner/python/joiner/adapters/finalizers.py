"""Letting go of an object: Joiner's finalizer comes off, those of others stay."""

from typing import Final

from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, NotFound
from joiner.adapters.kube_kinds import Kind
from joiner.names import TERMINATION_FINALIZER

TRIES: Final = 5  # whoever else has a finalizer here takes it off at about the same time


def delete_and_release(kube: Kube, kind: Kind, name: str, *, uid: str) -> None:
    """Delete an object, and take our finalizer off it. One that is gone, or another of its name by now, is success."""
    try:
        kube.delete(kind, name, uid=uid)
    except (NotFound, Conflict):
        return
    for attempt in range(1, TRIES + 1):
        try:
            metadata = kube.get(kind, name)["metadata"]
            finalizers = metadata.get("finalizers") or ()
            if metadata["uid"] != uid or TERMINATION_FINALIZER not in finalizers:
                return
            kept = [each for each in finalizers if each != TERMINATION_FINALIZER]
            changes = {"resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}
            kube.patch(kind, name, {"metadata": changes})
        except NotFound:
            return
        except Conflict:
            if attempt == TRIES:
                raise
        else:
            return
