"""The resources of a pool for its status: the capacity of its claims, in-flight claims included."""

from collections.abc import Iterable
from typing import Any

from joiner.cluster import Resources, sum_resources
from joiner.pools import NodeClaim, NodePool


def sum_usage(pool: NodePool, claims: Iterable[NodeClaim]) -> tuple[Resources, int]:
    """Return the capacity and the number of a pool's launched claims."""
    mine = [claim for claim in claims if claim.pool_key == pool.key and claim.provider_id]
    return sum_resources(claim.capacity for claim in mine), len(mine)


def usage_patches(pools: Iterable[NodePool], claims: Iterable[NodeClaim]) -> list[tuple[NodePool, dict[str, Any]]]:
    """Return the merge patch of the status of each pool whose numbers changed. A resource that it no longer has is
    zero.
    """
    known = list(claims)
    patches: list[tuple[NodePool, dict[str, Any]]] = []
    for pool in pools:
        used, nodes = sum_usage(pool, known)
        gone = Resources({name: 0 for name in pool.used if name not in used})
        if (used + gone).without_zeros() != pool.used.without_zeros():
            patches.append((pool, {"status": {"resources": (used + gone).to_kube(), "nodes": nodes}}))
    return patches
