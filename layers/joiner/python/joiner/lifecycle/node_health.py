"""Conditions of nodes that are bad, and nodes that were unhealthy for too long.

Source: Karpenter, provider AWS, RepairPolicies. All conditions but Ready come from the EKS node monitoring agent; a
condition that a node does not have is not bad.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from joiner.cluster import Node, NodeCondition
from joiner.pools import NodePool
from joiner.pools.disruption_settings import REPAIR_TOLERANCES
from joiner.pools.timestamps import parse_timestamp

BAD: Final[Mapping[str, tuple[str, ...]]] = {
    condition: ("False", "Unknown") if condition == "Ready" else ("False",) for condition in REPAIR_TOLERANCES
}
"""Condition -> the statuses that are bad."""


UNHEALTHY_PERCENT: Final = 20
"""Percentage of a pool's nodes that may be unhealthy while nodes of it are repaired, as in Karpenter."""


def are_too_many_unhealthy(unhealthy: int, nodes: int) -> bool:
    """Return whether so many of a pool's nodes are unhealthy that the cause is probably outside the nodes. The
    percentage is rounded up.

    >>> are_too_many_unhealthy(1, 2), are_too_many_unhealthy(3, 11), are_too_many_unhealthy(3, 10)
    (False, False, True)
    """
    return unhealthy > -(-nodes * UNHEALTHY_PERCENT // 100)


def find_bad_conditions(node: Node) -> list[NodeCondition]:
    """Return the conditions of a node that are bad now, for however short a time."""
    return [one for one in node.conditions if one.status in BAD.get(one.type, ())]


def find_intolerable_condition(node: Node, pool: NodePool, now: datetime) -> NodeCondition | None:
    """Return the condition that has been bad for longer than the pool tolerates; None if there is none."""
    tolerances = pool.disruption.settings.repair.tolerances
    for one in find_bad_conditions(node):
        tolerated, since = tolerances.get(one.type), _since(one)
        if tolerated is not None and since is not None and (now - since).total_seconds() >= tolerated:
            return one
    return None


def is_bad(node: Node, pool: NodePool) -> bool:
    """Return whether a condition is bad now that the pool does not ignore."""
    tolerances = pool.disruption.settings.repair.tolerances
    return any(tolerances.get(one.type) is not None for one in find_bad_conditions(node))


def describe_condition(condition: NodeCondition) -> str:
    """Return a condition for a message.

    >>> describe_condition(NodeCondition("Ready", "Unknown", "2026-11-21T11:30:00Z", "kubelet stopped posting"))
    'condition Ready is Unknown since 2026-11-21T11:30:00Z: kubelet stopped posting'
    """
    message = f"condition {condition.type} is {condition.status} since {condition.since}"
    return f"{message}: {condition.message[:200]}" if condition.message else message


def _since(condition: NodeCondition) -> datetime | None:
    try:
        moment = parse_timestamp(condition.since)
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
