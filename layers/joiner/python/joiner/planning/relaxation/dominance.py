"""The offers that no other offer of the same pool dominates.

An offer dominates another if it costs no more, holds no less of any resource, is open to all groups that the other is
open to, is in the same domain of every rule and preference, and counts no more against the pool's limits. Leaving out
dominated offers loses nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from joiner import names
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, PodGroups, pod_terms
from joiner.planning.relaxation.offer_table import (
    OfferChoices,
    OfferTable,
    columns_of,
    tabulate_offers,
    undominated_offers,
)
from joiner.planning.state.plan_state import PlanState

NO_ZONES: Final[Mapping[str, frozenset[str]]] = {}
MOST_KEPT: Final = 4
"""A search asks for few frontiers in turn: of the usual offers, of those that pods may open, and of all they accept."""


class OfferFrontier:
    """The undominated choices: pools of the highest weight first, then the cheapest offers first."""

    def __init__(self, state: PlanState, closed: Mapping[str, frozenset[str]] = NO_ZONES) -> None:
        """``closed`` are zones in which a pool, by its key, may launch no node."""
        groups = [group for group in state.groups.pending if not group.refused]
        self.tiers: list[tuple[int, list[OfferChoice]]] = []
        self._of: dict[PodGroup, list[list[OfferChoice]]] = {}
        if not groups or not any(pool_offers.launchable for pool_offers in state.offered_pools):
            return
        keys = distinguishing_keys(state.groups)
        table = _without_zones(tabulate_offers(state, groups, keys), closed)
        kept = undominated_offers(table, np.ones(len(table.kinds), bool))
        choices = OfferChoices(state, table, kept)
        found: dict[int, list[OfferChoice]] = {}
        for position in range(len(kept)):
            choice = choices[position]
            found.setdefault(choice.pool_offers.pool.weight, []).append(choice)
        for weight in sorted(found, reverse=True):
            found[weight].sort(
                key=lambda one: (one.one.offer, one.pool_offers.pool.key, sorted(one.variant.labels.items()))
            )
            self.tiers.append((weight, found[weight]))

    @classmethod
    def find(cls, state: PlanState) -> "OfferFrontier":
        """Return the frontier of the offers that are open to pods now. It is made once for the same offers: a plan
        searches several times, and with many values of open labels the frontier takes as long as a search."""
        variants = (variant for each in state.offered_pools for variant in each.variants)
        key = tuple((variant, variant.openings) for variant in variants)
        return state.kept(cls, MOST_KEPT).find(key, lambda: cls(state))

    def of_weight(self, weight: int) -> Sequence[OfferChoice]:
        """Return the offers of the pools with one weight, the cheapest first."""
        return next((choices for known, choices in self.tiers if known == weight), ())

    def by_weight(self, group: PodGroup) -> list[list[OfferChoice]]:
        """Return the choices of one group, one list for each pool weight, the highest weight first."""
        if group not in self._of:
            mark = 1 << group.index
            tiers = [
                [choices[at] for at in sorted(chain(*(places for groups, places in parts if groups & mark)))]
                for (_, choices), parts in zip(self.tiers, self._by_groups, strict=True)
            ]
            self._of[group] = [choices for choices in tiers if choices]
        return self._of[group]

    @cached_property
    def _by_groups(self) -> list[list[tuple[int, list[int]]]]:
        """For each tier, the sets of groups that may use the same offers, as bits, with the places of these offers."""
        found = []
        for _, choices in self.tiers:
            places: dict[int, list[int]] = {}
            for at, one in enumerate(choices):
                places.setdefault(one.groups, []).append(at)
            found.append(list(places.items()))
        return found

    def of(self, group: PodGroup) -> list[OfferChoice]:
        """Return the offers for the group that no other offer dominates."""
        return [one for choices in self.by_weight(group) for one in choices]


def _without_zones(table: OfferTable, closed: Mapping[str, frozenset[str]]) -> OfferTable:
    """Return the table in which no group may use the offers of a pool in its closed zones."""
    if not any(closed.values()):
        return table
    open_to = []
    for pool_offers, _ in table.sections:
        codes, zones = columns_of(pool_offers.offer_set).codes(names.ZONE)
        shut = closed.get(pool_offers.pool.key, frozenset())
        open_to.append(np.array([zone not in shut for zone in zones], dtype=bool)[codes])
    nobodys = np.zeros((len(table.kinds), 1), bool)
    way = np.where(np.concatenate(open_to), table.way, table.kinds.shape[1])
    return replace(table, kinds=np.concatenate([table.kinds, nobodys], axis=1), way=way)


def distinguishing_keys(groups: PodGroups) -> tuple[str, ...]:
    """Return the labels, except the hostname, by which some pod distinguishes nodes that are open to it: domains of
    rules and of volumes, and preferences."""
    found: set[str] = set()
    for group in groups.all:
        constraints = group.constraints
        found |= {spread.topology_key for spread in constraints.spreads if spread.hard or group.pods}
        found |= {term.topology_key for term in pod_terms(constraints)}
        if group.pods:
            found |= {key for preference in constraints.preferences for key in preference.term.labels}
        found |= {family.key for family in group.mounted.families}
        if group.mounted.shared:
            found.add(names.ZONE)
    return tuple(sorted(found - {names.HOSTNAME}))
