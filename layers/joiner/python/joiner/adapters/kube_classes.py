"""The finalizer of node classes in the cluster."""

from collections.abc import Iterable
from functools import partial

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.kube_patches import patch_latest
from joiner.adapters.parallel_calls import call_each
from joiner.lifecycle.class_finalizers import FinalizerChange, change_finalizer, find_finalizer_changes
from joiner.pools import NodeClaim


def write_finalizer_changes(kube: Kube, changes: Iterable[FinalizerChange]) -> list[str]:
    """Change the finalizers; return what could not be written. The next sweep finds it again."""
    by_kind = {kind.kind: kind for kind in kinds.NODE_CLASSES}

    def write(change: FinalizerChange) -> None:
        patch_latest(kube, by_kind[change.kind], change.name, partial(change_finalizer, added=change.added))

    return [
        f"{change.kind}/{change.name}: {answer}"
        for change, answer in call_each(list(changes), write, KubeError)
        if isinstance(answer, KubeError)
    ]


def release_classes(kube: Kube, claims: Iterable[NodeClaim]) -> list[str]:
    """Remove the finalizer from deleted classes without claims; return what could not be written."""
    listed = [{"kind": kind.kind, **each} for kind in kinds.NODE_CLASSES for each in kube.list(kind)]
    return write_finalizer_changes(kube, [each for each in find_finalizer_changes(listed, claims) if not each.added])
