"""Release claims, nodes and node classes when Joiner is removed, so that nothing on them waits for Joiner.

A finalizer of Joiner would block the deletion of a claim, a node or a class forever, and with it the deletion of its
pool and of the CRDs. The garbage collector would delete a node with the claim that owns it. Joiner's taints are
removed: a node that is closed for filling or draining opens. Claims stay, so that Joiner or Karpenter can use the nodes
again.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_kinds import CLAIMS, NODE_CLASSES, NODES, Kind
from joiner.adapters.kube_patches import patch_latest
from joiner.adapters.parallel_calls import call_all
from joiner.names import (
    CLASS_FINALIZER,
    DISRUPTED,
    EXCLUDE_FROM_LOAD_BALANCERS,
    FILLING,
    OURS,
    TERMINATION_FINALIZER,
    UNREGISTERED,
)

CLAIM_KINDS: Final = ("NodeClaim", "Machine")
POOL_KINDS: Final = ("NodePool", "Provisioner")
OWN_FINALIZERS: Final = (TERMINATION_FINALIZER, CLASS_FINALIZER)
OWN_TAINTS: Final = (DISRUPTED, FILLING, UNREGISTERED)

Manifest = Mapping[str, Any]


def release_objects(kube: Kube) -> int:
    """Release all claims, nodes and node classes of Joiner; return the number of changed objects.

    All objects are tried before the first error is raised.
    """
    changed = 0
    for kind in (*CLAIMS, NODES, *NODE_CLASSES):
        try:
            listed = kube.list(kind)
        except NotFound:  # the CRD does not exist
            continue
        held = [each for each in listed if release_patch(kind, each) is not None]
        release = partial(patch_latest, kube, kind, find_changes=partial(release_patch, kind))
        call_all((str(each["metadata"]["name"]) for each in held), release, KubeError)
        changed += len(held)
    return changed


def release_patch(kind: Kind, manifest: Manifest) -> dict[str, Any] | None:
    """Return the merge patch that releases an object; None if it has no finalizer, owner or taint of Joiner."""
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    owners, finalizers = metadata.get("ownerReferences") or [], metadata.get("finalizers") or []
    of_joiner = CLAIM_KINDS if kind is NODES else POOL_KINDS
    kept_owners = [each for each in owners if each.get("kind") not in of_joiner]
    kept_finalizers = [each for each in finalizers if each not in OWN_FINALIZERS]
    if kept_owners == owners and kept_finalizers == finalizers and not _closed_by_joiner(kind, manifest):
        return None
    changes: dict[str, Any] = {"resourceVersion": metadata["resourceVersion"]}
    changes |= {"ownerReferences": kept_owners or None, "finalizers": kept_finalizers or None}
    if kind is not NODES:
        return {"metadata": changes}
    taints = [each for each in spec.get("taints") or [] if each.get("key") not in OWN_TAINTS]
    closed = any(each.get("key") == DISRUPTED for each in spec.get("taints") or [])
    labels = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: None}} if closed else {}
    return {"metadata": {**changes, **labels}, "spec": {"taints": taints or None}}


def _closed_by_joiner(kind: Kind, manifest: Manifest) -> bool:
    """Return whether the object is one of Joiner's nodes with a taint of Joiner.

    A node that has not registered has neither finalizer nor owner.
    """
    labels, taints = manifest["metadata"].get("labels") or {}, (manifest.get("spec") or {}).get("taints") or []
    ours = any(key in labels for key in OURS)
    return kind is NODES and ours and any(each.get("key") in OWN_TAINTS for each in taints)
