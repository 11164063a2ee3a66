"""The pools that stand for standalone claims without an instance, in a snapshot."""

from dataclasses import replace

from joiner.planning.inputs.snapshot import Snapshot
from joiner.pools.standalone_claims import build_claim_pool, find_claims_to_launch


def with_claim_pools(snapshot: Snapshot) -> Snapshot:
    """Add a static pool for each standalone claim to launch; that of an invalid claim is closed."""
    claims = find_claims_to_launch(snapshot.claims, snapshot.entering)
    if not claims:
        return snapshot
    pools = {pool.key: pool for pool in snapshot.pools}
    errors = {one.object: one.message for one in reversed(snapshot.problems) if one.severity == "error"}
    return replace(
        snapshot,
        pools=(*snapshot.pools, *(build_claim_pool(claim, pools.get(claim.pool_key)) for claim in claims)),
        closed_pools={**snapshot.closed_pools, **{each.key: errors[each.key] for each in claims if each.key in errors}},
    )
