"""Exclude instance types and zones from a search in a state that knows them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Final

from joiner.planning.model.exotic_offers import ExoticOffers
from joiner.planning.model.node_offers import OfferChoice, OfferSet, Openings, PoolOffers, PoolVariant
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.model.position_bits import as_bits
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
    # The same openings each time: what is known of their offers stays valid.
    changed = [
        (each, state.kept("only opened").find(each.openings, partial(_without_joined, each.openings)))
        for each in _all_variants(state)
    ]
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
        # The same variants each time: what is known of their offers stays valid.
        widest = tuple(state.kept("accepting all").find((each, each.openings), each.accepting_all) for each in variants)
        object.__setattr__(pool_offers, "variants", widest)
    try:
        yield
    finally:
        for pool_offers, variants in before:
            object.__setattr__(pool_offers, "variants", variants)


def find_closed_pools(state: PlanState, groups: Iterable[PodGroup]) -> list[PoolOffers]:
    """Return the pools with an offer that could hold a pod of one of these groups, that its rules accept, and of which
    limits allow a node, but of which it may neither open nor join a node."""
    groups = [group for group in groups if not group.refused]
    allowed = cache(partial(_find_allowed, state))
    return [each for each in state.offered_pools if any(_is_closed_to(each, group, allowed) for group in groups)]


def _find_allowed(state: PlanState, pool_offers: PoolOffers) -> int:
    """Return the offers of a pool of which limits allow one more node, as bits."""
    choices = (OfferChoice(pool_offers, pool_offers.variants[0], one, 0) for one in pool_offers.launchable)
    return as_bits([choice.one.index for choice in choices if not state.over_limit(choice)])


def _is_closed_to(pool_offers: PoolOffers, group: PodGroup, allowed: Callable[[PoolOffers], int]) -> bool:
    closed: dict[OfferSet, int] = {}
    for variant in pool_offers.variants:
        openings = variant.openings
        if offers := openings.accepted[group.index] & ~openings.joined[group.index]:
            closed[variant.offer_set] = closed.get(variant.offer_set, 0) | offers
    return (
        bool(closed)
        and group.constraints.untolerated(pool_offers.pool.taints) is None
        and any(
            offer_set.derived(ExoticOffers).is_held(group.needs, offers & allowed(pool_offers))
            for offer_set, offers in closed.items()
        )
    )


def _without_joined(openings: Openings) -> Openings:
    return replace(openings, joined=openings.opened)


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
