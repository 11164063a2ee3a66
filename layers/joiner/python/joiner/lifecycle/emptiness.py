"""When a node is empty: nothing runs on it that would have to run elsewhere.

Source: Karpenter, core `pkg/utils/pod/scheduling.go` (IsReschedulable). Pods of daemon sets and static pods belong to
their node; a pod that has ended or is ending holds nothing, but for one of a stateful set, whose successor wants the
same volume.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.pools import NodeClaim, NodePool

SETTLING: Final = timedelta(seconds=20)
"""A node that has just opened stays at least so long: what it was made for, the scheduler may still be putting there.
"""

AHEAD: Final = 90
"""Seconds by which a retirement is asked for before its time at most: so long it waits. Where sweeps are rarer, a later
one asks.
"""

SHORTEST: Final = 15
"""Seconds for which a node must be empty even where its pool says 0; as long as Karpenter validates."""


def holds_node(pod: Pod) -> bool:
    """Would it have to run elsewhere if its node went?"""
    if pod.terminal or pod.stays_with_node:
        return False
    return not pod.deletion or pod.owner_kind == "StatefulSet"


def is_empty(node: Node, pods: Iterable[Pod]) -> bool:
    """Does no pod of `pods` (of any node, or of none) hold this node, or have it promised by the scheduler?"""
    return not any(holds_node(pod) for pod in pods if node.name in (pod.node_name, pod.nominated_node))


def may_empty_nodes_go(pool: NodePool) -> bool:
    """Does the pool let nodes go that are empty? A pool of a fixed size keeps them."""
    return pool.disruption.consolidate_after is not None and pool.replicas is None


def empty_for(pool: NodePool) -> int:
    """For how many seconds a node must be empty before it goes."""
    return max(pool.disruption.consolidate_after or 0, SHORTEST)


def must_not_be_disrupted(claim: NodeClaim, node: Node) -> bool:
    """Did somebody say that this node stays, unless it must go?"""
    said: tuple[Mapping[str, str], ...] = (claim.annotations, node.annotations)
    return any(each.get(names.DO_NOT_DISRUPT) == "true" for each in said)


def find_disturbance(claim: NodeClaim, node: Node, pods: Iterable[Pod], *, slots: int) -> str:
    """Why the node must be left in peace by whatever is not urgent; empty if it need not. `pods` are of any node,
    `slots` counts the pods that an assignment still sends to this one.
    """
    if must_not_be_disrupted(claim, node):
        return f"it is annotated {names.DO_NOT_DISRUPT}"
    if any(pod.protected and pod.node_name == node.name and not pod.terminal for pod in pods):
        return "a pod on its node asks not to be disrupted"
    # Once a node takes pods they come by the scheduler: slots that a plan gave it at this very moment are nobody's
    return "pods are on their way to its node" if slots > 0 and not claim.initialized else ""


def settled_at(claim: NodeClaim) -> datetime | None:
    """Until when the node stays although it is empty; None if it is not open yet."""
    since = claim.conditions["Initialized"].since
    return since + SETTLING if claim.initialized and since is not None else None
