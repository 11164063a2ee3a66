"""The share of new nodes that must prove themselves before the other drifted nodes of a pool are replaced.

A canary is a node that is not drifted and was launched after the first of the present drifts began: it is what a
replacement would be. It counts once it has been initialized for the time that the pool sets, and while its node is
Ready. Until enough count, only as many nodes are replaced as canaries are missing. A drifted node whose pods fit on
other nodes launches no canary: it leaves within this limit, and the next one may follow, because no new node is needed.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from joiner.cluster import Node
from joiner.disruption.drift import DRIFTED
from joiner.planning.model.pending_pods import is_given_up
from joiner.pools import NodeClaim, NodePool
from joiner.pools.disruption_settings import count_share

NO_LIMIT: Final = 1 << 30
LATE_NODE_COUNTS: Final = timedelta(hours=1)
"""For this time, a node that became ready too late, or not at all, holds the replacement of others."""


def count_replaceable(
    pool: NodePool, claims: Iterable[NodeClaim], nodes: Mapping[str, Node], *, replacing: int, now: datetime
) -> int:
    """Return how many drifted nodes of a pool may be replaced now.

    `nodes` are by the key of their claim. `replacing` counts nodes of the pool whose replacements may still boot.
    """
    mine = [claim for claim in claims if claim.pool_key == pool.key and not claim.deleting]
    wanted = count_share(pool.disruption.settings.drift.canary, sum(claim.initialized for claim in mine))
    began = min(
        (claim.conditions[DRIFTED].since or now for claim in mine if claim.conditions.true(DRIFTED)), default=now
    )
    canaries = [claim for claim in mine if _is_canary(claim, began)]
    healthy = sum(_has_proved_itself(claim, nodes.get(claim.key), pool, now) for claim in canaries)
    if healthy >= wanted:
        return NO_LIMIT
    return max(0, wanted - max(len(canaries), replacing))


def find_failed_join(pool: NodePool, claims: Iterable[NodeClaim], now: datetime) -> str:
    """Return the name of a claim of the pool whose node did not join or did not become ready; empty if there is none.

    While such a claim exists, no drifted node of the pool is replaced: the next node would probably fail, too. A node
    that joined and became ready too late may run pods for months, so it counts for an hour only.
    """
    mine = (claim for claim in claims if claim.pool_key == pool.key and is_given_up(claim))
    return next((claim.name for claim in mine if not _is_long_known(claim, now)), "")


def _is_long_known(claim: NodeClaim, now: datetime) -> bool:
    """Return whether the node joined, and was given up for its initialization long ago."""
    initialized = claim.conditions["Initialized"]
    return claim.registered and initialized.since is not None and now - initialized.since > LATE_NODE_COUNTS


def _is_canary(claim: NodeClaim, began: datetime) -> bool:
    return not claim.conditions.true(DRIFTED) and claim.created is not None and claim.created >= began


def _has_proved_itself(claim: NodeClaim, node: Node | None, pool: NodePool, now: datetime) -> bool:
    since = claim.conditions["Initialized"].since
    needed = timedelta(seconds=pool.disruption.settings.drift.canary_seconds)
    return claim.initialized and since is not None and now - since >= needed and node is not None and node.ready
