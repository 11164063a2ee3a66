"""The condition Consolidatable of a claim: its node has been left alone for the pool's ``consolidateAfter``.

Source: Karpenter, core `pkg/controllers/nodeclaim/disruption/consolidation.go`. The condition says nothing about the
pods of the node. It is written after a survey for nodes to disrupt, so it may be a minute late, and later while nothing
changes.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from joiner.cluster import Pod
from joiner.disruption.disruption_candidates import last_pod_event
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.pools import NodeClaim, NodePool

CONSOLIDATABLE: Final = "Consolidatable"


def has_settled(
    claim: NodeClaim, pool: NodePool, pods: Iterable[Pod], events: Mapping[str, datetime], now: datetime
) -> bool:
    """Return whether the pool's consolidateAfter has passed since the last pod event on the claim's node.

    `pods` are those of the node; `events` gives the last pod event of each claim, by its key. With ``Never`` it has
    passed, because a drifted node is replaced at any time.
    """
    after, since = pool.disruption.consolidate_after, last_pod_event(claim, pods, events)
    return after is None or since is None or since + timedelta(seconds=after) <= now


def find_consolidatable(snapshot: Snapshot, events: Mapping[str, datetime], now: datetime) -> Mapping[str, bool]:
    """Return for each initialized claim with a node and a pool (by key) whether it is consolidatable. The nodes of a
    static pool are not."""
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        pods.setdefault(pod.node_name, []).append(pod)
    pools, nodes = {pool.key: pool for pool in snapshot.pools}, nodes_of_claims(snapshot)
    found = {}
    for claim in snapshot.claims:
        node, pool = nodes.get(claim.key), pools.get(claim.pool_key)
        if node is not None and pool is not None and claim.initialized:
            enabled = pool.disruption.consolidate_after is not None and pool.replicas is None
            found[claim.key] = enabled and has_settled(claim, pool, pods.get(node.name, ()), events, now)
    return found


def mark_consolidatable(claim: NodeClaim, *, may: bool, at: datetime) -> NodeClaim | None:
    """Return the claim with the condition, or without it; None if nothing changes."""
    if may == claim.conditions.true(CONSOLIDATABLE):
        return None
    if may:
        return claim.with_condition(CONSOLIDATABLE, "True", CONSOLIDATABLE, at=at)
    return claim.without_condition(CONSOLIDATABLE)
