"""The cost of moving pods to other nodes. Source: Karpenter, core `pkg/utils/disruption/disruption.go`."""

from collections.abc import Iterable
from typing import Final

from joiner.cluster.pods import Pod

DELETION_COST_UNIT: Final = 2.0**27
PRIORITY_UNIT: Final = 2.0**25
MOST_EVICTION_COST: Final = 10.0
NODE_COST: Final = 1.0
"""The eviction cost of a node without pods."""


def eviction_cost(pod: Pod) -> float:
    """Return the cost of moving one pod, as Karpenter counts it: 1 for a pod without priority and deletion cost.

    >>> eviction_cost(Pod("shop", "web-0")), eviction_cost(Pod("shop", "web-0", deletion_cost=-(2**27)))
    (1.0, 0.0)
    """
    cost = 1.0 + pod.deletion_cost / DELETION_COST_UNIT + pod.priority / PRIORITY_UNIT
    return max(-MOST_EVICTION_COST, min(MOST_EVICTION_COST, cost))


def node_eviction_cost(pods: Iterable[Pod]) -> float:
    """Return the cost of removing a node with these pods."""
    return NODE_COST + sum(max(0.0, eviction_cost(pod)) for pod in pods)
