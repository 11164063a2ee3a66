"""Exclude instance types and zones from a search in a state that knows them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from joiner.planning.model.node_offers import Openings
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
    with _changed_openings(state, lambda openings: replace(openings, joined=openings.opened)):
        yield


@contextmanager
def all_accepted(state: PlanState) -> Iterator[None]:
    """Let pods open nodes of all offers that their rules accept, and restore the offers at the end."""
    with _changed_openings(
        state, lambda openings: replace(openings, joined=openings.accepted, opened=openings.accepted)
    ):
        yield


def is_any_closed(state: PlanState) -> bool:
    """Return whether a group with pods left has offers that its rules accept and that it may neither open nor join."""
    left = [group.index for group, number in state.left.items() if number]
    return any(
        openings.accepted[index] & ~openings.joined[index]
        for each in state.offered_pools
        for openings in (variant.openings for variant in each.variants)
        for index in left
    )


@contextmanager
def _changed_openings(state: PlanState, change: Callable[[Openings], Openings]) -> Iterator[None]:
    variants = [(variant, variant.openings) for each in state.offered_pools for variant in each.variants]
    for variant, openings in variants:
        object.__setattr__(variant, "openings", change(openings))
    try:
        yield
    finally:
        for variant, openings in variants:
            object.__setattr__(variant, "openings", openings)
