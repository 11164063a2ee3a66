"""Marks of offerings without capacity whose end may change a proposal.

Scale-ups mark offerings, too, that no replacement would use: none is launched that costs as much as the most expensive
node does, unless it replaces several nodes at once, or one that is drifted, expired or at risk. Each end that counts
starts a look for nodes to disrupt. A saving by an offering that does not count is found by the next look without a
change, at most an hour later.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from joiner import names
from joiner.catalogue import Catalogue
from joiner.disruption.drift import DRIFTED
from joiner.planning import Snapshot
from joiner.planning.model.offer_compilation import match_types
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.pools import NodePool

Mark = tuple[tuple[str, str, str], datetime]
"""Capacity type, instance type and zone of an offering, and when its mark ends."""


def find_limiting_ends(
    marks: Sequence[Mark], snapshot: Snapshot, catalogue: Catalogue, recommended: Iterable[str] = ()
) -> list[datetime]:
    """Return the ends of the marks whose offering a pool allows, and that costs less than some node.

    `recommended` are the claims that EC2 recommends to replace. A mark whose offering has no price, because it is of
    all types, zones or a placement group, counts.
    """
    if not marks:
        return []
    allowed = [(pool, match_types(pool)) for pool in snapshot.pools]
    most = None if _may_replace_at_any_price(snapshot, recommended) else _highest_price(snapshot, catalogue)

    def counts(capacity_type: str, name: str, zone: str) -> bool:
        known = catalogue.types.get(name)
        price = known.price(zone, capacity_type) if known else None
        if known is None or price is None:
            return True
        return (most is None or price < most) and any(
            _allows_place(pool, zone, capacity_type) and types.allows(known.labels) for pool, types in allowed
        )

    return [end for offering, end in marks if counts(*offering)]


def _allows_place(pool: NodePool, zone: str, capacity_type: str) -> bool:
    return zone in pool.requirements.on(names.ZONE) and capacity_type in pool.requirements.on(names.CAPACITY_TYPE)


def _may_replace_at_any_price(snapshot: Snapshot, recommended: Iterable[str]) -> bool:
    """Return whether nodes are outdated or may become so, or NodeOverlays set prices that the catalogue does not
    have."""
    outdated = any(claim.conditions.true(DRIFTED) for claim in snapshot.claims) or any(recommended)
    return outdated or bool(snapshot.overlays) or any(_is_graceful(pool) for pool in snapshot.pools)


def _is_graceful(pool: NodePool) -> bool:
    return pool.disruption.settings.expiration.graceful


def _highest_price(snapshot: Snapshot, catalogue: Catalogue) -> float | None:
    """Return the highest price of a node with a claim in $/h; None if the price of one is unknown."""
    nodes = nodes_of_claims(snapshot)
    prices = []
    for claim in snapshot.claims:
        if claim.key not in nodes or claim.deleting:
            continue
        labels = {**claim.labels, **nodes[claim.key].labels}
        parts = (labels.get(key, "") for key in (names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE))
        prices.append(catalogue.price(*parts))
    known = [each for each in prices if each is not None]
    return max(known, default=0.0) if len(known) == len(prices) else None
