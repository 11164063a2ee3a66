"""The patches that close a node before it is removed, and open it again.

A disruption that waits for replacements only taints the node. A retirement also excludes it from load balancers. The
patches name the version of the node that they were made from, because other controllers write the same lists.
"""

from collections.abc import Iterable
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Taint
from joiner.cluster.taints import DISRUPTED_TAINT

_LABEL: Final = names.EXCLUDE_FROM_LOAD_BALANCERS

EXCLUDED: Final = "karpenter"
"""The value of the label that excludes a node from load balancers; only the key has an effect, and Karpenter writes
this value.
"""


def mark_patch(node: Node) -> dict[str, Any] | None:
    """Return the merge patch that taints a node; None if it is tainted. Load balancers keep the node until its
    retirement."""
    if _is_tainted(node):
        return None
    return _patch(node, (*node.taints, DISRUPTED_TAINT))


def taint_patch(node: Node) -> dict[str, Any] | None:
    """Return the merge patch that taints a node and excludes it from load balancers; None if that is done."""
    there = _is_tainted(node)
    if there and _LABEL in node.labels:
        return None
    taints = node.taints if there else (*node.taints, DISRUPTED_TAINT)
    return _patch(node, taints, {_LABEL: node.labels.get(_LABEL, EXCLUDED)})


def untaint_patch(node: Node) -> dict[str, Any] | None:
    """Return the merge patch that undoes both; None if that is done."""
    taints = tuple(taint for taint in node.taints if not taint.matches(DISRUPTED_TAINT))
    label = node.labels.get(_LABEL)
    if taints == node.taints and label != EXCLUDED:
        return None
    return _patch(node, taints, {_LABEL: None if label == EXCLUDED else label})


def include_patch(node: Node) -> dict[str, Any] | None:
    """Return the merge patch that gives a node back to load balancers and keeps its taint; None if that is done."""
    if node.labels.get(_LABEL) != EXCLUDED:
        return None
    return _patch(node, node.taints, {_LABEL: None})


def _is_tainted(node: Node) -> bool:
    return any(taint.matches(DISRUPTED_TAINT) for taint in node.taints)


def _patch(node: Node, taints: Iterable[Taint], labels: dict[str, str | None] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": node.resource_version, **({"labels": labels} if labels else {})},
        "spec": {"taints": [taint.to_kube() for taint in taints]},
    }
