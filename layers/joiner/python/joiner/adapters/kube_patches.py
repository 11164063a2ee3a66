"""Merge patches of objects that other writers change too: read, patch the version that was read, and after a conflict
read again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, NotFound
from joiner.adapters.kube_kinds import Kind

TRIES: Final = 5
"""Other controllers remove their finalizers from the same object at about the same time."""


def patch_latest(
    kube: Kube,
    kind: Kind,
    name: str,
    find_changes: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
    *,
    subresource: str = "",
) -> None:
    """Patch the newest version of a cluster-scoped object. A missing object is ignored.

    Args:
        kube: the cluster.
        kind: the object's kind.
        name: the object's name.
        find_changes: returns the merge patch for a manifest, with its `resourceVersion`; None if nothing has to change.
        subresource: the part of the object that is patched, for example `status`.

    Raises:
        Conflict: the object changed between every read and its patch.
    """
    for attempt in range(1, TRIES + 1):
        try:
            changes = find_changes(kube.get(kind, name))
            if changes is not None:
                kube.patch(kind, name, changes, subresource=subresource)
        except NotFound:
            return
        except Conflict:
            if attempt == TRIES:
                raise
        else:
            return
