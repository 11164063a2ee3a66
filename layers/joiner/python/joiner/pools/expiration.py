"""When a claim expires.

A NodeClaim has its own `expireAfter`. A Machine has no such field: the present `ttlSecondsUntilExpired` of its
Provisioner applies. With graceful expiration the ends of nodes are spread over the last part of their time, so that
nodes that were launched together are not replaced together.
"""

import hashlib
from datetime import datetime, timedelta

from joiner.pools.node_claim import NodeClaim
from joiner.pools.node_pool import NodePool


def expire_after(claim: NodeClaim, pool: NodePool | None) -> int | None:
    """Return the maximum age of a claim in seconds; None if it does not expire."""
    if claim.kind == "NodeClaim":
        return claim.expire_after
    return pool.expire_after if pool is not None else None


def expires_at(claim: NodeClaim, pool: NodePool | None) -> datetime | None:
    """Return when a claim has reached its maximum age; None if it does not expire."""
    after = expire_after(claim, pool)
    return claim.created + timedelta(seconds=after) if after is not None and claim.created is not None else None


def replaced_at(claim: NodeClaim, pool: NodePool) -> datetime | None:
    """Return from when a claim is replaced gracefully; None if it does not expire.

    It is a fixed point in the last `spread` percent of the claim's time, which its uid decides.
    """
    end, after = expires_at(claim, pool), expire_after(claim, pool)
    if end is None or after is None:
        return None
    digest = hashlib.sha256((claim.uid or claim.name).encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return end - timedelta(seconds=after * pool.disruption.settings.expiration.spread / 100 * share)
