"""Write the status of pools, node classes and NodeOverlays.

A merge patch replaces lists: the conditions, and the last registrations of a pool. Other executions write them too, so
a status is computed again from the version that is patched. What was computed from a listed manifest only shows that
there is something to write.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.kube_patches import patch_latest
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.lifecycle.declared_status import StatusPatch

Manifest = Mapping[str, Any]


def write_declared_statuses(
    kube: Kube,
    listed: Iterable[Manifest],
    find_patch: Callable[[Manifest], StatusPatch | None],
    time_left: TimeLeft = UNBOUNDED,
) -> list[str]:
    """Write the status of each manifest (with its `kind`) for which there is a patch; return what was not written.

    An object that was changed or replaced since it was listed is left out: that change starts another execution.
    """
    kinds_by_name = {kind.kind: kind for kind in kinds.KINDS.values()}
    outdated = [manifest for manifest in listed if find_patch(manifest) is not None]

    def write(manifest: Manifest) -> None:
        kind = kinds_by_name[str(manifest["kind"])]
        find_changes = _of_newest(manifest, find_patch)
        patch_latest(kube, kind, str(manifest["metadata"]["name"]), find_changes, subresource="status")

    answers, late = call_each_in_time(outdated, write, KubeError, time_left)
    return [
        *(f"{_key(each)}: {answer}" for each, answer in answers if answer is not None),
        *(f"{_key(each)}: no time was left" for each in late),
    ]


def _of_newest(
    listed: Manifest, find_patch: Callable[[Manifest], StatusPatch | None]
) -> Callable[[Manifest], Manifest | None]:
    def find_changes(newest: Manifest) -> Manifest | None:
        if _version_of_spec(newest) != _version_of_spec(listed):
            return None
        patch = find_patch({**newest, "kind": listed["kind"]})
        guard = {"metadata": {"resourceVersion": newest["metadata"]["resourceVersion"]}}
        return None if patch is None else {**guard, **patch.changes}

    return find_changes


def _version_of_spec(manifest: Manifest) -> tuple[Any, Any]:
    return manifest["metadata"].get("uid"), manifest["metadata"].get("generation")


def _key(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
