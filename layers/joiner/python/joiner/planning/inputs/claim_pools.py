"""The pools that stand for standalone claims without an instance, in a snapshot.

Each of them costs a plan about as much as a pool does, and every user who may create claims may create many. So a plan
takes some of them: first those that no plan has refused, then the others in turn.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from joiner.planning.inputs.snapshot import Snapshot
from joiner.pools import NodeClaim
from joiner.pools.standalone_claims import build_claim_pool, find_claims_to_launch

CLAIMS_OF_A_PLAN: Final = 20
"""Maximum of standalone claims in one plan: a second, in which pending pods wait."""


def with_claim_pools(snapshot: Snapshot, turn: int = 0) -> Snapshot:
    """Add a static pool for each standalone claim to launch; that of an invalid claim is closed.

    Of more claims than a plan takes, ``turn`` (the number of the lease) decides which of those are taken that could not
    be launched before. The same snapshot and turn give the same claims.
    """
    claims = choose_claims(find_claims_to_launch(snapshot.claims, snapshot.entering), turn)
    if not claims:
        return snapshot
    pools = {pool.key: pool for pool in snapshot.pools}
    errors = {one.object: one.message for one in reversed(snapshot.problems) if one.severity == "error"}
    return replace(
        snapshot,
        pools=(*snapshot.pools, *(build_claim_pool(claim, pools.get(claim.pool_key)) for claim in claims)),
        closed_pools={**snapshot.closed_pools, **{each.key: errors[each.key] for each in claims if each.key in errors}},
    )


def count_left_out(snapshot: Snapshot) -> int:
    """Return how many standalone claims to launch a plan for this snapshot leaves to later ones."""
    return max(0, len(find_claims_to_launch(snapshot.claims, snapshot.entering)) - CLAIMS_OF_A_PLAN)


def choose_claims(claims: Sequence[NodeClaim], turn: int) -> list[NodeClaim]:
    """Return the claims of one plan: those that no plan has refused come first, by name."""
    by_name = sorted(claims, key=lambda claim: claim.key)
    refused = [claim for claim in by_name if claim.conditions["Launched"].status == "False"]
    fresh = [claim for claim in by_name if claim.conditions["Launched"].status != "False"]
    begin = turn * CLAIMS_OF_A_PLAN % len(refused) if refused else 0
    return [*fresh, *refused[begin:], *refused[:begin]][:CLAIMS_OF_A_PLAN]
