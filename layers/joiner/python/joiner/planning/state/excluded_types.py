"""Exclude instance types and zones from a search in a state that knows them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
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
            changed.append((variant, variant.openings))
            object.__setattr__(variant, "openings", variant.openings.within(kept))
    try:
        yield
    finally:
        for variant, openings in changed:
            object.__setattr__(variant, "openings", openings)


@contextmanager
def only_opened(state: PlanState) -> Iterator[None]:
    """Let pods use only offers of which they may open a node, and restore the offers at the end."""
    variants = [(variant, variant.openings) for each in state.offered_pools for variant in each.variants]
    for variant, openings in variants:
        object.__setattr__(variant, "openings", replace(openings, joined=openings.opened))
    try:
        yield
    finally:
        for variant, openings in variants:
            object.__setattr__(variant, "openings", openings)
