"""Exclude instance types and zones from a search in a state that knows them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from joiner.planning.state.plan_state import PlanState

NO_ZONES: Final[Mapping[str, frozenset[str]]] = {}


@contextmanager
def excluded_types(
    state: PlanState, types: Collection[str], zones: Mapping[str, frozenset[str]] = NO_ZONES
) -> Iterator[None]:
    """Let no pod use an offer of these types, or of these zones of a pool (by its key), and restore the offers at the
    end."""
    changed = []
    for pool_offers in state.offered_pools if types or zones else ():
        shut = zones.get(pool_offers.pool.key, frozenset())
        kept = ~sum(
            1 << one.index for one in pool_offers.launchable if one.model.name in types or one.offering.zone in shut
        )
        for variant in pool_offers.variants:
            bits = dict(variant.bits)
            changed.append((variant, bits))
            object.__setattr__(variant, "bits", {group: offers & kept for group, offers in bits.items()})
    try:
        yield
    finally:
        for variant, bits in changed:
            object.__setattr__(variant, "bits", bits)
