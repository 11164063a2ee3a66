"""Determine whether a node is empty: no pod on it would have to run elsewhere.

Source: Karpenter, core `pkg/utils/pod/scheduling.go` (IsReschedulable). Pods of daemon sets and static pods belong to
their node. A pod that has ended or is terminating does not hold a node, except a pod of a stateful set, whose successor
needs the same volume.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from joiner.cluster import Node, Pod
from joiner.names import DO_NOT_CONSOLIDATE, DO_NOT_DISRUPT
from joiner.pools import NodeClaim, NodePool
from joiner.pools.disruption_protection import find_protected_node, find_protection

SETTLING: Final = timedelta(seconds=20)
"""Minimum time that a node stays after it opened: the scheduler may still be binding the pods that it was launched for.
"""

AHEAD: Final = 90
"""Maximum of seconds by which a retirement is requested before its time; the retirement waits that long.

If sweeps are rarer, a later sweep requests it.
"""

BEGUN_WITHIN: Final = 30
"""Seconds after its earliest time within which a requested retirement begins, or never."""

SHORTEST: Final = 15
"""Minimum of seconds for which a node must be empty even if its pool sets 0; the same as Karpenter's validation."""


def holds_node(pod: Pod) -> bool:
    """Return whether the pod would have to run elsewhere without its node."""
    if pod.terminal or pod.stays_with_node:
        return False
    return not pod.deletion or pod.owner_kind == "StatefulSet"


def is_empty(node: Node, pods: Iterable[Pod]) -> bool:
    """Return whether no pod of `pods` (of any node, or of none) holds this node or is nominated for it."""
    return not any(holds_node(pod) for pod in pods if node.name in (pod.node_name, pod.nominated_node))


def may_empty_nodes_go(pool: NodePool) -> bool:
    """Return whether the pool allows the retirement of empty nodes. A pool of a fixed size does not."""
    return pool.disruption.consolidate_after is not None and pool.replicas is None


def keeps_empty_node(pool: NodePool, node: Node) -> bool:
    """Return whether the node's annotation keeps it from consolidation, of which its retirement is a part then."""
    return pool.disruption.policy != "WhenEmpty" and node.annotations.get(DO_NOT_CONSOLIDATE) == "true"


def empty_for(pool: NodePool) -> int:
    """Return the seconds for which a node must be empty before it is retired."""
    return max(pool.disruption.consolidate_after or 0, SHORTEST)


def compute_request_end(not_before: int, now: int) -> int:
    """Return until when a retirement that is requested at `now` may still begin; all in epoch seconds.

    >>> compute_request_end(0, now=1000), compute_request_end(1060, now=1000)
    (1030, 1090)
    """
    return max(not_before, now) + BEGUN_WITHIN


def find_disturbance(
    claim: NodeClaim,
    node: Node,
    pods: Iterable[Pod],
    *,
    slots: int,
    now: datetime,
    annotations: Collection[str] = (DO_NOT_DISRUPT,),
) -> str:
    """Return why a retirement that is not urgent must not begin; empty if it may.

    `annotations` are those that protect the node or the claim. `pods` are of any node; none of them matters if it is
    empty. `slots` counts the pods that an assignment still expects on this node.
    """
    if why := find_protected_node(claim, node, annotations):
        return why
    mine = (find_protection(pod, now) for pod in pods if pod.node_name == node.name)
    if why := next((each for each in mine if each), ""):
        return why
    # Once a node takes pods, the scheduler binds them: a plan's slots on it no longer count
    return "pods are on their way to its node" if slots > 0 and not claim.initialized else ""


def settled_at(claim: NodeClaim) -> datetime | None:
    """Return until when the node stays although it is empty; None if it is not open yet."""
    since = claim.conditions["Initialized"].since
    return since + SETTLING if claim.initialized and since is not None else None
