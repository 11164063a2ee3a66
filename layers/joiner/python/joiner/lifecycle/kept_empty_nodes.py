"""Empty nodes that are kept for pods that leave another node: the plan placed them there, or the nodes were launched
for them.

Each pod keeps at most one node, the first by name that suits it and has enough free resources. So one pod that cannot
leave keeps one node, not all nodes that it would fit. A drain that takes long keeps no node, because its end is unknown
and a new node is launched quickly.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from joiner.cluster import Node, Pod
from joiner.cluster.resources import sum_resources
from joiner.names import DISRUPTED
from joiner.pools import NodeClaim

KEPT_AT_MOST: Final = timedelta(minutes=10)
"""Maximum time after a drain's start for which its pods keep nodes."""


def find_recently_draining(
    leaving: Iterable[str], nodes: Iterable[Node], claims: Iterable[NodeClaim], now: datetime
) -> frozenset[str]:
    """Return the names of `leaving` nodes, without those whose claims were deleted long ago."""
    old = {
        claim.provider_id
        for claim in claims
        if claim.provider_id and claim.deletion is not None and now - claim.deletion > KEPT_AT_MOST
    }
    return frozenset(leaving) - {node.name for node in nodes if node.provider_id in old}


def assign_kept_nodes(nodes: Iterable[Node], moving: Iterable[Pod], bound: Iterable[Pod]) -> Mapping[str, str]:
    """Return the key of the first pod that keeps each node, by the node's name; `bound` are the pods on these nodes."""
    there = [pod for pod in bound if not pod.terminal]
    candidates = sorted(nodes, key=lambda node: node.name)
    free = {
        node.name: node.allocatable - sum_resources(pod.requests for pod in there if pod.node_name == node.name)
        for node in candidates
    }
    found: dict[str, str] = {}
    for pod in sorted(moving, key=lambda pod: pod.key):
        node = next((node for node in candidates if _suits(pod, node) and pod.requests.fits(free[node.name])), None)
        if node is not None:
            free[node.name] -= pod.requests
            found.setdefault(node.name, pod.key)
    return found


def _suits(pod: Pod, node: Node) -> bool:
    taints = tuple(taint for taint in node.taints if taint.key != DISRUPTED)
    fitting = pod.constraints.untolerated(taints) is None and pod.constraints.suits(node.labels, node.name)
    return fitting and pod.node_name != node.name
