"""Close the nodes that are being drained: a node whose taint was removed is tainted again, or its drain would not end.

A name of a node may belong to another instance by now; that node stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_nodes import patch_node, read_node
from joiner.adapters.parallel_calls import call_each
from joiner.lifecycle.node_closing import mark_patch, taint_patch
from joiner.lifecycle.retirement import RetiringClaim

logger = Logger(child=True)


@dataclass(frozen=True, slots=True)
class ClosedNode:
    """The node of a claim. `mismatch`: a sentence if the node of this name belongs to another instance, else empty.
    `was_open`: its taint was missing when it was read. `closed`: it has the taint now, or the node is gone.
    """

    mismatch: str = ""
    was_open: bool = False
    closed: bool = True


def close_nodes(kube: Kube, draining: Sequence[RetiringClaim]) -> dict[str, ClosedNode | KubeError | ValueError]:
    """Return the nodes by claim; an error for a node that could not be read."""
    found: dict[str, ClosedNode | KubeError | ValueError] = {}
    for one, answer in call_each(draining, lambda each: _close(kube, each), Exception):
        if isinstance(answer, Exception) and not isinstance(answer, KubeError | ValueError):
            raise answer
        found[one.claim] = answer
    return found


def _close(kube: Kube, one: RetiringClaim) -> ClosedNode:
    try:
        manifest = kube.get(kinds.NODES, one.node)
    except NotFound:
        return ClosedNode()
    instance = str((manifest.get("spec") or {}).get("providerID") or "").rpartition("/")[2]
    owners = [str(each.get("name")) for each in manifest["metadata"].get("ownerReferences") or ()]
    if mismatch := one.find_mismatch(instance, owners):
        return ClosedNode(mismatch)
    was_open = True
    try:
        node = read_node(manifest)
        was_open = mark_patch(node) is not None
        patch_node(kube, node, taint_patch)
    except (KubeError, ValueError) as reason:
        logger.warning("a node could not be closed", node=one.node, nodeclaim=one.claim, reason=str(reason))
        return ClosedNode(was_open=was_open, closed=not was_open)
    return ClosedNode(was_open=was_open)
