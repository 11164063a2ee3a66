"""Static pools (NodePools with ``replicas``): the nodes that count as replicas, and how many a pool lacks.

A node counts from the launch of its claim until it is drained, deleted or given up. The disruption of a marked node
launches its replacement: nothing else is launched for it, and if the replacement fails, it stays. Source: Karpenter,
"NodePools", static capacity.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from joiner.cluster import Node
from joiner.lifecycle.failed_claims import failure_reason
from joiner.pools import NodeClaim, NodePool
from joiner.pools.node_pool import pool_key_of
from joiner.pools.retiring_nodes import find_marked_nodes, find_retiring_nodes


def find_replicas(
    pools: Iterable[NodePool], claims: Sequence[NodeClaim], nodes: Sequence[Node], launching: Collection[str]
) -> dict[str, list[NodeClaim]]:
    """Return the claims that count as replicas of each static pool, by the pool's key: those of nodes that stay, also
    when the disruptions under way have ended.

    `launching` names the claims of launches whose outcome is not recorded yet. Pools that are being deleted are left
    out.
    """
    found: dict[str, list[NodeClaim]] = {pool.key: [] for pool in pools if _is_kept_up(pool)}
    if not found:
        return found
    retiring = find_retiring_nodes(nodes, claims) | find_marked_nodes(nodes, claims)
    by_instance = {node.provider_id: node for node in nodes if node.provider_id}
    for claim in claims:
        if claim.pool_key not in found or claim.deleting or failure_reason(claim):
            continue
        node = by_instance.get(claim.provider_id) if claim.provider_id else None
        stays = node.name not in retiring if node else claim.launched or claim.name in launching
        if stays:
            found[claim.pool_key].append(claim)
    return found


def count_missing_replicas(
    pools: Sequence[NodePool], claims: Sequence[NodeClaim], nodes: Sequence[Node], launching: Collection[str]
) -> Mapping[str, int]:
    """Return how many nodes each static pool lacks, by the pool's key; only pools that lack some. Nodes of a pool
    without a claim count as replicas, too: their claims are created again."""
    present = find_replicas(pools, claims, nodes, launching)
    if not present:
        return {}
    claimed, retiring = {claim.provider_id for claim in claims}, find_retiring_nodes(nodes, claims)
    others = Counter(
        pool_key_of(node) for node in nodes if node.provider_id not in claimed and node.name not in retiring
    )
    kept = _count_kept(present, claims, nodes)
    missing = {
        pool.key: (pool.replicas or 0) - len(present[pool.key]) - others[pool.key] - kept[pool.key]
        for pool in pools
        if pool.key in present
    }
    return {key: number for key, number in missing.items() if number > 0}


def _count_kept(
    present: Mapping[str, Sequence[NodeClaim]], claims: Iterable[NodeClaim], nodes: Sequence[Node]
) -> Counter[str]:
    """Count, by the pool's key, the marked nodes for which no node is in flight: they stay if their replacement failed,
    and otherwise it is not written yet."""
    claims = tuple(claims)
    marked, names = find_marked_nodes(nodes, claims), {node.provider_id: node.name for node in nodes}
    found = Counter(claim.pool_key for claim in claims if names.get(claim.provider_id) in marked)
    found.subtract({key: sum(not claim.initialized for claim in mine) for key, mine in present.items()})
    return +found


def _is_kept_up(pool: NodePool) -> bool:
    return pool.replicas is not None and not pool.deleting
