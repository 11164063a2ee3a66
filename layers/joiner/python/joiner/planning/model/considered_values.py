"""The combinations of values of open labels that one plan considers, in all pools: those that pods ask for, up to a
maximum.

Each combination is a variant of a pool with all of its offers, so time and memory grow with their number, and any user
who may create pods can ask for any number. If pods ask for more than the maximum, each group of pods gets those without
which it has no node before any gets those that only spread it or meet its preferences. Higher priorities are first. Of
one priority, the groups take turns: first the newest of each namespace. Pods that get none stay pending. The next plan
considers theirs, because pods that got nodes no longer ask.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Final

from joiner.cluster import Requirements
from joiner.planning.model.node_labels import open_keys
from joiner.planning.model.node_offers import OfferSet
from joiner.planning.model.open_label_values import Combination, OpenLabelValues
from joiner.planning.model.pod_groups import PodGroup, PodGroups, fits
from joiner.planning.model.pool_variants import find_accepted
from joiner.planning.model.variant_daemons import OffersBesideDaemons
from joiner.pools import NodePool

MOST_COMBINATIONS: Final = 500
"""The maximum number of combinations that a plan considers, beside the first of each pool. With 600 types in three
zones, at two capacity types, a first plan for 500 tenants takes 9 s and 540 MB; the planning function has 60 s and
1,769 MB, and a plan may build its state twice. 8,000 combinations take 27 s and 3.6 GB."""

FindCombinations = Callable[[OpenLabelValues, PodGroup], Iterable[Combination]]


@dataclass(frozen=True, slots=True)
class ConsideredValues:
    """The values of the open labels of one pool that a plan considers: ``labels``, one mapping for each variant.
    ``waiting`` are the groups that need others, by index, each with the offers that accept it then, as bits."""

    labels: Sequence[Mapping[str, str]]
    waiting: Mapping[int, int]


def choose_values(
    pools: Sequence[NodePool], offer_sets: Mapping[str, OfferSet], groups: PodGroups, full: Collection[str] = ()
) -> dict[str, ConsideredValues]:
    """Return by key what is considered in each of these pools. Those without offers, and those that are ``full``, by
    key, because their limits allow no node, come after all others."""
    by_use = sorted(pools, key=lambda pool: pool.key in full or not offer_sets[pool.key].every)
    asked = {pool.key: _find_values(pool, offer_sets[pool.key], groups) for pool in by_use}
    found = {key: values.list_combinations(MOST_COMBINATIONS + 2) for key, values in asked.items()}
    waiting: dict[str, dict[int, int]] = {}
    if sum(len(each) - 1 for each in found.values()) > MOST_COMBINATIONS:
        accepted = {pool.key: _accept_with_any_values(pool, offer_sets[pool.key], groups) for pool in by_use}
        choice = _Choice(asked, _order_groups(groups, offer_sets, accepted))
        found = {key: list(each) for key, each in choice.found.items()}
        waiting = {key: {group: accepted[key][group] for group in each} for key, each in choice.find_waiting().items()}
    return {
        pool.key: ConsideredValues(
            [_labels(pool, combination) for combination in found[pool.key]],
            waiting.get(pool.key, {}),
        )
        for pool in pools
    }


def _find_values(pool: NodePool, offer_set: OfferSet, groups: PodGroups) -> OpenLabelValues:
    return OpenLabelValues(pool, open_keys(pool), groups, OffersBesideDaemons(pool, offer_set, groups).rules)


def _labels(pool: NodePool, combination: Combination) -> dict[str, str]:
    return {key: value for key, value in zip(open_keys(pool), combination, strict=True) if value is not None}


class _Choice:
    """The combinations that are chosen if pods ask for more than the maximum. ``found`` are those of each pool."""

    def __init__(self, asked: Mapping[str, OpenLabelValues], order: Sequence[Sequence[PodGroup]]) -> None:
        """``order`` are the groups by priority, in the order of their turns."""
        self._asked = asked
        self._may_use = {key: frozenset(values.groups) for key, values in asked.items()}
        self._left = MOST_COMBINATIONS
        self.found = {key: dict.fromkeys([values.first]) for key, values in asked.items()}
        for find in (OpenLabelValues.find_required, OpenLabelValues.find_needed, OpenLabelValues.find_preferred):
            for alike in order:
                self._take_turns([self._find(group, find) for group in alike])

    def find_waiting(self) -> dict[str, set[int]]:
        """Return by pool the groups, by index, whose required rules ask for combinations that are not chosen."""
        return {
            key: {
                group.index
                for group in values.groups
                if any(
                    one not in self.found[key] for one in chain(values.find_required(group), values.find_needed(group))
                )
            }
            for key, values in self._asked.items()
        }

    def _find(self, group: PodGroup, find: FindCombinations) -> Iterator[tuple[str, Combination]]:
        for key, values in self._asked.items():
            if group in self._may_use[key]:
                yield from ((key, one) for one in find(values, group))

    def _take_turns(self, asked: Sequence[Iterator[tuple[str, Combination]]]) -> None:
        while asked and self._left:
            asked = [each for each in asked if self._left and self._take_next(each)]

    def _take_next(self, asked: Iterator[tuple[str, Combination]]) -> bool:
        """Choose the next combination that is not chosen yet; return whether there is one."""
        for key, combination in asked:
            if combination not in self.found[key]:
                self.found[key][combination] = None
                self._left -= 1
                return True
        return False


def _order_groups(
    groups: PodGroups, offer_sets: Mapping[str, OfferSet], accepted: Mapping[str, Mapping[int, int]]
) -> list[list[PodGroup]]:
    """Return the pending groups by priority, each priority in order of turns: groups that no offer accepts or is large
    enough for are last, then the newest pods of each namespace are first. Pods that no plan can place, for example
    beyond the limits of their pool, grow old, and do not take the turns of others for ever."""
    frees = {one.free for offer_set in offer_sets.values() for one in offer_set.launchable}
    largest = [max(amounts) for amounts in zip(*frees, strict=True)] or [0] * len(groups.resources)
    hopeless = {
        one: not (fits(one, largest) and any(of_pool[one.index] for of_pool in accepted.values()))
        for one in groups.pending
    }
    ordered = sorted(groups.pending, key=lambda one: (-len(one.pods), one.index))
    ordered.sort(key=lambda one: max(pod.created for pod in one.pods), reverse=True)  # stable, also in reverse
    ordered.sort(key=lambda one: (one.rank, hopeless[one]))
    turns, before = dict[PodGroup, int](), dict[tuple[int, str], int]()
    for group in ordered:
        own = (group.rank, group.namespace)
        turns[group] = before[own] = before.get(own, 0) + 1
    ordered.sort(key=lambda one: (one.rank, hopeless[one], turns[one]))
    return [list(alike) for _, alike in groupby(ordered, key=lambda one: one.rank)]


def _accept_with_any_values(pool: NodePool, offer_set: OfferSet, groups: PodGroups) -> dict[int, int]:
    """Return by group index the offers that accept a pending group with some values of open labels, as bits."""
    asking = tuple(replace(group, where=without_open_labels(group.where, pool)) for group in groups.pending)
    return find_accepted(pool, {}, offer_set, replace(groups, pending=asking))


def without_open_labels(where: Sequence[Requirements], pool: NodePool) -> tuple[Requirements, ...]:
    """Return the alternatives without their rules about labels that the pool leaves open."""
    keys = frozenset(open_keys(pool))
    kept = (Requirements({key: values for key, values in one.items() if key not in keys}) for one in where)
    return tuple(dict.fromkeys(kept))
