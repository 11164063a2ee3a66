"""What the cluster keeps when Joiner goes: claims and nodes without anything that waits for Joiner.

Our finalizer on a claim or a node would hold its deletion forever, and with it that of its pool and of the CRDs. A node
whose owner is a claim would be deleted with that claim by the garbage collector. The taints are those that only Joiner
takes off: a node that is closed to be filled or drained opens. Claims themselves stay, so that Joiner or Karpenter can
take the nodes over again.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_kinds import MACHINES, NODECLAIMS, NODES, Kind
from joiner.adapters.kube_patches import patch_latest
from joiner.adapters.parallel import call_all
from joiner.names import (
    DISRUPTED,
    EXCLUDE_FROM_LOAD_BALANCERS,
    FILLING,
    NODEPOOL,
    PROVISIONER,
    TERMINATION_FINALIZER,
    UNREGISTERED,
)

CLAIM_KINDS: Final = ("NodeClaim", "Machine")
POOL_KINDS: Final = ("NodePool", "Provisioner")
OWN_TAINTS: Final = (DISRUPTED, FILLING, UNREGISTERED)

Manifest = Mapping[str, Any]


def release_objects(kube: Kube) -> int:
    """Release all claims and nodes of Joiner; how many objects were changed. All are tried before the first error is
    raised.
    """
    changed = 0
    for kind in (NODECLAIMS, MACHINES, NODES):
        try:
            listed = kube.list(kind)
        except NotFound:  # its CRD is gone
            continue
        held = [each for each in listed if release_patch(kind, each) is not None]
        release = partial(patch_latest, kube, kind, find_changes=partial(release_patch, kind))
        call_all((str(each["metadata"]["name"]) for each in held), release, KubeError)
        changed += len(held)
    return changed


def release_patch(kind: Kind, manifest: Manifest) -> dict[str, Any] | None:
    """The merge patch that releases an object; None if nothing of Joiner holds it."""
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    owners, finalizers = metadata.get("ownerReferences") or [], metadata.get("finalizers") or []
    of_joiner = CLAIM_KINDS if kind is NODES else POOL_KINDS
    kept_owners = [each for each in owners if each.get("kind") not in of_joiner]
    kept_finalizers = [each for each in finalizers if each != TERMINATION_FINALIZER]
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
    """Is it a node of a pool with a taint of Joiner? One that has not registered has neither finalizer nor owner
    yet.
    """
    labels, taints = manifest["metadata"].get("labels") or {}, (manifest.get("spec") or {}).get("taints") or []
    of_a_pool = NODEPOOL in labels or PROVISIONER in labels
    return kind is NODES and of_a_pool and any(each.get("key") in OWN_TAINTS for each in taints)
