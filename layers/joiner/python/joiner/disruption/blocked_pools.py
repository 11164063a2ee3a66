"""Pools whose budgets allow no disruption now, although some of their nodes could be disrupted.

Source: Karpenter, core `pkg/controllers/disruption/helpers.go` (`BuildDisruptionBudgetMapping`): an event on the pool
for each reason with no allowed disruption, not counting the nodes that are in disruption: a budget that they use up is
free again when they have left. Here only for reasons for which the pool has a node.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from joiner.disruption.disruption_candidates import needs_another_node
from joiner.disruption.drift import DRIFTED
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.pools import NodePool
from joiner.pools.disruption_budgets import Reason, is_closed_by_budgets


def find_blocked_pools(
    snapshot: Snapshot, consolidatable: Mapping[str, bool], now: datetime
) -> Iterator[tuple[NodePool, Reason]]:
    """Yield each pool with the reasons for which its budgets allow no node, in the order of the pools.

    `consolidatable` says of each claim (by key) whether it is.
    """
    wanted, nodes = _find_reasons(snapshot, consolidatable), nodes_of_claims(snapshot)
    for pool in snapshot.pools:
        for reason in sorted(wanted[pool.key]):
            if is_closed_by_budgets(pool, reason, snapshot.claims, nodes, now=now):
                yield pool, reason


def _find_reasons(snapshot: Snapshot, consolidatable: Mapping[str, bool]) -> Mapping[str, set[Reason]]:
    """Return for which reasons the nodes of each pool (by key) could be disrupted."""
    nodes, used = nodes_of_claims(snapshot), {pod.node_name for pod in snapshot.pods if needs_another_node(pod)}
    found: dict[str, set[Reason]] = defaultdict(set)
    for claim in snapshot.claims:
        if claim.key not in nodes or claim.deleting or nodes[claim.key].retiring:
            continue
        if claim.conditions.true(DRIFTED):
            found[claim.pool_key].add("Drifted")
        if consolidatable.get(claim.key):
            found[claim.pool_key].add("Underutilized" if nodes[claim.key].name in used else "Empty")
    return found
