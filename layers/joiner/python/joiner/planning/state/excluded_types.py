"""Exclude instance types and zones from a search in a state that knows them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from joiner.planning.model.node_offers import Openings, PoolVariant
from joiner.planning.state.plan_state import PlanState

NO_ZONES: Final[Mapping[str, frozenset[str]]] = {}


@contextmanager
def excluded_types(
    state: PlanState, types: Collection[str], zones: Mapping[str, frozenset[str]] = NO_ZONES
) -> Iterator[None]:
    """Let no pod use an offer of these types, or of these zones of a pool (by its key), and restore the offers at the
    end."""
    changed: list[tuple[PoolVariant, Openings]] = []
    for pool_offers in state.offered_pools if types or zones else ():
        shut = zones.get(pool_offers.pool.key, frozenset())
        kept = ~sum(
            1 << one.index for one in pool_offers.launchable if one.model.name in types or one.offering.zone in shut
        )
        changed += ((variant, variant.openings.within(kept)) for variant in pool_offers.variants)
    with _changed_openings(changed):
        yield


@contextmanager
def only_opened(state: PlanState) -> Iterator[None]:
    """Let pods use only offers of which they may open a node, and restore the offers at the end."""
    changed = ((each, replace(each.openings, joined=each.openings.opened)) for each in _all_variants(state))
    with _changed_openings(changed):
        yield


@contextmanager
def all_accepted(state: PlanState) -> Iterator[None]:
    """Let pods open nodes of all offers that their rules accept, and restore the offers at the end.

    The nodes that the search opens meanwhile keep the variants that allow it, so that they have alternatives, and may
    be moved, among all these offers, too.
    """
    before = [(each, each.variants) for each in state.offered_pools]
    for pool_offers, variants in before:
        object.__setattr__(pool_offers, "variants", tuple(each.accepting_all() for each in variants))
    try:
        yield
    finally:
        for pool_offers, variants in before:
            object.__setattr__(pool_offers, "variants", variants)


def is_any_closed(state: PlanState) -> bool:
    """Return whether a group with pods left has offers that its rules accept and that it may neither open nor join."""
    left = [group.index for group, number in state.left.items() if number]
    return any(
        openings.accepted[index] & ~openings.joined[index]
        for openings in (variant.openings for variant in _all_variants(state))
        for index in left
    )


def _all_variants(state: PlanState) -> Iterator[PoolVariant]:
    return (variant for each in state.offered_pools for variant in each.variants)


@contextmanager
def _changed_openings(changed: Iterable[tuple[PoolVariant, Openings]]) -> Iterator[None]:
    """Give these variants these openings, and at the end those that they had."""
    before = []
    for variant, openings in changed:
        before.append((variant, variant.openings))
        object.__setattr__(variant, "openings", openings)
    try:
        yield
    finally:
        for variant, openings in before:
            object.__setattr__(variant, "openings", openings)
