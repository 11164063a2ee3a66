"""Fewer and larger nodes, and fewer kinds of them, for about the same price.

The search minimizes the price, and of equal prices it often finds the plan with many small nodes. This step runs on the
finished plan. It replaces several nodes by one that holds all of their pods, and nodes of rare types by types that the
plan uses anyway. Replacements that cost nothing are made, others only within a share of the plan's price. Many pods
stay on two nodes or more, which can be in two zones, unless one node saves more than that share. All rules of the
scheduler hold, and the blast radius of the pool. Nodes of pods with preferences stay as they are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from joiner import names
from joiner.cluster.resources import CPU
from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.model.blast_radius import most_on_a_node
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet, PoolOffers, PoolVariant
from joiner.planning.model.pod_groups import PodGroup, group_mask, sum_needs
from joiner.planning.placement.node_exchange import NodeExchange, has_preferences
from joiner.planning.relaxation.offer_table import unpack_bits
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY

MOST_TOGETHER: Final = 16
"""More pods than this are not merged into a single node."""
MOST_PATTERNS: Final = 300
"""The number of different nodes of a pool that are looked at; further ones stay as they are."""
MOST_WORK: Final = 4_000
"""The number of patterns that are looked at for one pool, in all rounds: about a quarter of a second."""
WORK_OF_A_REFUSAL: Final = 50
"""What a merge that a rule refuses counts: its nodes are opened and closed again."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """New nodes with the same offer and as many pods of the same groups."""

    choice: OfferChoice
    planned: tuple[tuple[PodGroup, int], ...]
    nodes: list[NodeState] = field(default_factory=list)

    @property
    def price(self) -> float:
        """Return the price of one node in $/h."""
        return self.choice.one.offer.price_per_hour


def merge_nodes(state: PlanState, share: float) -> None:
    """Merge nodes and remove instance types, for at most this share of the plan's price."""
    price = state.price
    exchange = NodeExchange(state)
    budget = price * share
    offered_pools = {id(node.choice.pool_offers): node.choice.pool_offers for node in state.new if node.choice}
    for pool_offers in offered_pools.values():
        merger = NodeMerger(state, pool_offers, exchange)
        while merger.work < MOST_WORK and merger.merge_once(budget - (state.price - price)):
            pass
        TypeReduction(state, pool_offers, exchange).run(lambda: budget - (state.price - price))


def patterns_of(state: PlanState, pool_offers: PoolOffers) -> list[Pattern]:
    """Return the nodes of a pool that may be replaced, those that are alike together."""
    found: dict[object, Pattern] = {}
    for node in state.new:
        choice = node.choice
        if choice is None or choice.pool_offers is not pool_offers or choice.one.supply is not None or not node.planned:
            continue
        if any(has_preferences(state, group) for group in node.planned):
            continue
        planned = tuple(sorted(node.planned.items(), key=lambda one: one[0].index))
        known = (choice.one.index, id(choice.variant), tuple((group.index, number) for group, number in planned))
        found.setdefault(known, Pattern(choice, planned)).nodes.append(node)
    return list(found.values())


class OfferArrays:
    """The unlimited offers of a variant of a pool as arrays."""

    def __init__(self, variant: PoolVariant) -> None:
        self.offers: Sequence[NodeOffer] = [one for one in variant.launchable if one.supply is None]
        self.index: Whole = np.array([one.index for one in self.offers], dtype=np.int64)
        width = len(variant.launchable[0].free) if variant.launchable else 0
        self.free: Floats = np.array([one.free for one in self.offers], float).reshape(len(self.offers), width)
        self.price: Floats = np.array([one.offer.price_per_hour for one in self.offers], float)
        order = sorted(range(len(self.offers)), key=lambda at: (self.offers[at].offer, self.offers[at].index))
        self.place: Whole = np.empty(len(order), dtype=np.int64)
        self.place[order] = np.arange(len(order))
        radius = variant.pool.planning.blast_radius
        most = (radius.vcpus or 1 << 20) * 1000
        self.allowed: Marks = np.array([one.capacity.get(CPU, 0) <= most for one in self.offers], bool)
        self._labels: dict[str, list[str | None]] = {}

    def equal(self, key: str, value: str | None) -> Marks:
        """Return which offers have this value of a label."""
        if key not in self._labels:
            self._labels[key] = [one.label(key) for one in self.offers]
        return np.array([own == value for own in self._labels[key]], bool)

    def marked(self, bits: int) -> Marks:
        """Return which offers have their bit set."""
        width = int(self.index.max(initial=0)) + 1
        return unpack_bits(bits & ((1 << width) - 1), width)[self.index]

    def open_to(self, state: PlanState, pattern: Pattern) -> Marks:
        """Return the offers that may replace the offer of a pattern, by every label that matters."""
        bits = pattern.choice.variant.common_to(group.index for group, _ in pattern.planned)
        keys = {names.CAPACITY_TYPE}.union(*(state.keys_of(group) for group, _ in pattern.planned))
        marks = self.marked(bits) & self.allowed
        for key in sorted(keys):
            if pattern.choice.variant.labels.get(key) is None:
                marks &= self.equal(key, pattern.choice.one.label(key))
        return marks


class KnownOfferArrays:
    """The arrays of each variant. Variants with the same offers share them."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, OfferSet], OfferArrays] = {}

    def of(self, variant: PoolVariant) -> OfferArrays:
        """Return the arrays of a variant."""
        key = (id(variant.pool), variant.offer_set)
        if key not in self._known:
            self._known[key] = OfferArrays(variant)
        return self._known[key]


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """One node of an offer for so many nodes of each pattern. ``extra`` is what it costs more, in $/h, and ``place``
    the place of the offer among those of the pool."""

    offer: NodeOffer
    variant: PoolVariant
    parts: tuple[tuple[Pattern, int], ...]
    extra: float
    place: int

    @property
    def removed(self) -> int:
        """Return by how many nodes the plan becomes smaller."""
        return sum(number for _, number in self.parts) - 1


class NodeMerger:
    """Merges the nodes of one pool, one kind of merge at a time."""

    def __init__(self, state: PlanState, pool_offers: PoolOffers, exchange: NodeExchange) -> None:
        self._state = state
        self._pool_offers = pool_offers
        self._exchange = exchange
        self._arrays = KnownOfferArrays()
        self._open: dict[object, Marks] = {}
        self._refused: set[tuple[int, int]] = set()
        self.work = 0

    def merge_once(self, budget: float) -> bool:
        """Make the best merge as often as possible; return whether one was made or refused by a rule."""
        best = self._best(budget)
        if best is None:
            return False
        made = 0
        times = min(len(pattern.nodes) // number for pattern, number in best.parts)
        for turn in range(times):
            nodes = [
                node for pattern, number in best.parts for node in pattern.nodes[turn * number : (turn + 1) * number]
            ]
            if made and best.extra > TINY and best.extra * (made + 1) > budget:
                break
            choice = OfferChoice(self._pool_offers, best.variant, best.offer, self._mask(best))
            if not self._exchange.replace(nodes, choice):
                break
            made += 1
        if not made:
            self._refused.add((best.offer.index, id(best.variant)))
            self.work += WORK_OF_A_REFUSAL
        return True

    def _mask(self, merge: Merge) -> int:
        return group_mask(group for pattern, _ in merge.parts for group, _ in pattern.planned)

    def _best(self, budget: float) -> Merge | None:
        patterns = patterns_of(self._state, self._pool_offers)
        self.work += max(len(patterns), 1)
        best = (
            self._best_of(
                variant, [pattern for pattern in patterns if pattern.choice.variant is variant][:MOST_PATTERNS], budget
            )
            for variant in dict.fromkeys(pattern.choice.variant for pattern in patterns)
        )
        found = [merge for merge in best if merge is not None]
        if not found:
            return None
        extra, removed = np.array([each.extra for each in found]), np.array([each.removed for each in found])
        return found[int(_rank(extra, removed, np.array([each.place for each in found]))[0])]

    def _best_of(self, variant: PoolVariant, patterns: Sequence[Pattern], budget: float) -> Merge | None:
        """Return the best of the merges that fill each offer with these nodes, those with the highest price for their
        size first."""
        arrays = self._arrays.of(variant)
        if not len(arrays.offers) or sum(len(pattern.nodes) for pattern in patterns) < 2:
            return None
        needs = [_need(pattern, arrays.free.shape[1]) for pattern in patterns]
        scale = 1.0 / np.maximum(arrays.free.mean(axis=0), 1.0)
        order = sorted(
            range(len(patterns)), key=lambda at: -patterns[at].price / max(float((needs[at] * scale).sum()), 1e-12)
        )
        left, paid = arrays.free.copy(), np.zeros(len(arrays.offers))
        taken = np.zeros((len(patterns), len(arrays.offers)), dtype=np.int64)
        for at in order:
            pattern, need = patterns[at], needs[at]
            used = need > 0
            fitting = (
                np.floor(left[:, used] / need[used] + TINY).min(axis=1)
                if used.any()
                else np.full(len(left), float(len(pattern.nodes)))
            )
            number = np.clip(fitting, 0, min(len(pattern.nodes), self._most_of(pattern))).astype(np.int64)
            number[~self._open_to(pattern)] = 0
            taken[at] = number
            left -= number[:, None] * need
            paid += number * pattern.price
        extra = arrays.price - paid
        removed = taken.sum(axis=0) - 1
        able = np.flatnonzero((removed >= 1) & (extra <= max(budget, 0.0) + TINY))
        for position in able[_rank(extra[able], removed[able], arrays.place[able])].tolist():
            one = arrays.offers[position]
            if (one.index, id(variant)) in self._refused:
                continue
            parts = tuple(
                (pattern, int(taken[at, position])) for at, pattern in enumerate(patterns) if taken[at, position]
            )
            saves = extra[position] < -max(budget, 0.0) - TINY
            if self._within_radius(parts) and (saves or not self._leaves_one_zone(variant, parts)):
                return Merge(one, variant, parts, float(extra[position]), int(arrays.place[position]))
        return None

    def _open_to(self, pattern: Pattern) -> Marks:
        known = (
            pattern.choice.one.index,
            id(pattern.choice.variant),
            tuple(group.index for group, _ in pattern.planned),
        )
        if known not in self._open:
            self._open[known] = self._arrays.of(pattern.choice.variant).open_to(self._state, pattern)
        return self._open[known]

    def _most_of(self, pattern: Pattern) -> int:
        """Return how many nodes of a pattern the blast radius, and the rules of its pods about hosts, allow to
        merge."""
        share = self._pool_offers.pool.planning.blast_radius.share
        most = [len(pattern.nodes)]
        for group, number in pattern.planned:
            if share is not None:
                most.append(most_on_a_node(group, share) // number)
            own = self._state.rules[group.index]
            most += [allowed // number for counts, allowed in own.of_hosts if counts in own.feeds]
        return max(min(most), 0)

    def _leaves_one_zone(self, variant: PoolVariant, parts: Sequence[tuple[Pattern, int]]) -> bool:
        """Return whether a merge puts many pods on the only node that is left, though nodes in several zones could have
        them. Pods with others of their kind on running nodes do not count."""
        if len(self._state.new) >= sum(number for _, number in parts) + 1:
            return False
        planned = [(group, each * number) for pattern, number in parts for group, each in pattern.planned]
        if sum(number for group, number in planned if not group.running) <= MOST_TOGETHER:
            return False
        bits = variant.common_to(group.index for group, _ in planned)
        held = any(names.ZONE in self._state.keys_of(group) for group, _ in planned)
        zones = variant.offer_set.positions(names.ZONE)[0].values()
        return not held and sum(bool(bits & offers) for offers in zones) > 1

    def _within_radius(self, parts: Iterable[tuple[Pattern, int]]) -> bool:
        share = self._pool_offers.pool.planning.blast_radius.share
        if share is None:
            return True
        held: Counter[PodGroup] = Counter()
        for pattern, number in parts:
            for group, each in pattern.planned:
                held[group] += each * number
        return all(number <= most_on_a_node(group, share) for group, number in held.items())


def _need(pattern: Pattern, resources: int) -> Floats:
    return np.array(sum_needs(pattern.planned, resources), dtype=float)


def _rank(extra: Floats, removed: Whole, place: Whole) -> Whole:
    """Return the positions of merges, best first: those that cost nothing, most nodes removed first; then the cheapest
    for each removed node. ``extra`` is what each costs, ``place`` the place of its offer."""
    costs = extra > TINY
    return np.lexsort((place, extra.round(9), -removed, np.where(costs, extra / removed, 0.0).round(9), costs))


class TypeReduction:
    """Replaces the nodes of rare instance types by types that the plan uses anyway."""

    def __init__(self, state: PlanState, pool_offers: PoolOffers, exchange: NodeExchange) -> None:
        self._state = state
        self._pool_offers = pool_offers
        self._exchange = exchange

    def run(self, budget: Callable[[], float]) -> None:
        """Move nodes of rare instance types to other types of the plan while `budget()` ($/h) allows the extra cost."""
        arrays = KnownOfferArrays()
        for rare in self._by_rarity():
            patterns = patterns_of(self._state, self._pool_offers)
            used = Counter(
                name for pattern in patterns for name in [pattern.choice.one.model.name] * len(pattern.nodes)
            )
            mine = [pattern for pattern in patterns if pattern.choice.one.model.name == rare]
            if len(used) < 2 or sum(len(pattern.nodes) for pattern in mine) != self._count(rare):
                continue
            swaps = [
                (pattern, self._cheapest(arrays.of(pattern.choice.variant), pattern, used.keys() - {rare}))
                for pattern in mine
            ]
            extra = sum(
                (one.offer.price_per_hour - pattern.price) * len(pattern.nodes) for pattern, one in swaps if one
            )
            if any(one is None for _, one in swaps) or extra > max(budget(), 0.0) + TINY:
                continue
            for pattern, one in swaps:
                for node in pattern.nodes if one else ():
                    mask = group_mask(group for group, _ in pattern.planned)
                    if one and not self._exchange.replace(
                        [node], OfferChoice(self._pool_offers, pattern.choice.variant, one, mask)
                    ):
                        break

    def _by_rarity(self) -> list[str]:
        found = Counter(
            node.choice.one.model.name
            for node in self._state.new
            if node.choice and node.choice.pool_offers is self._pool_offers
        )
        return sorted(found, key=lambda name: (found[name], name))

    def _count(self, name: str) -> int:
        return sum(1 for node in self._state.new if node.choice and node.choice.one.model.name == name)

    def _cheapest(self, arrays: OfferArrays, pattern: Pattern, types: Iterable[str]) -> NodeOffer | None:
        """Return the cheapest offer of these types that holds such a node's pods, in its own zone if possible."""
        allowed = set(types)
        need = _need(pattern, arrays.free.shape[1])
        marks = arrays.open_to(self._state, pattern) & (arrays.free >= need).all(axis=1)
        zone = pattern.choice.one.offering.zone
        able = [arrays.offers[at] for at in np.flatnonzero(marks).tolist() if arrays.offers[at].model.name in allowed]
        return min(able, key=lambda one: (one.offer.price_per_hour, one.offering.zone != zone, one.index), default=None)
