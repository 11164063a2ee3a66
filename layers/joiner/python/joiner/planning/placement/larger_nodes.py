"""Larger nodes where subnets have no address for more nodes.

A large node takes no more addresses than a small one. So pods that are left get room on nodes that the plan has: a node
is replaced by a larger one of the same pool, zone and capacity type that holds its pods and some of those that are
left. The replacements that cost least for each further pod are made first. All rules of the scheduler hold, and the
blast radius of the pool. Nodes of pods with preferences stay as they are.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from joiner import names
from joiner.planning.arrays import Marks
from joiner.planning.model.blast_radius import most_on_a_node
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, PoolOffers, PoolVariant
from joiner.planning.model.pod_groups import PodGroup, group_mask, sum_needs
from joiner.planning.placement.node_exchange import NodeExchange
from joiner.planning.placement.node_merging import KnownOfferArrays, Pattern, patterns_of
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY

MOST_REPLACEMENTS: Final = 40
"""How often the best replacement is chosen; it is made for all nodes that are alike."""

MOST_WORK: Final = 20_000
"""How often it is counted how many further pods of a group fit on the offers for a node: about a second."""

Rank = tuple[float, int, int]
"""$/h for each further pod, the number of further pods (negative), and the place of the offer among those of its
pool."""


def use_larger_nodes(state: PlanState) -> None:
    """Replace new nodes by larger ones while pods are left that these hold."""
    replacing = NodeEnlargement(state)
    for _ in range(MOST_REPLACEMENTS):
        if not state.pods_left or replacing.work >= MOST_WORK or not replacing.replace_best():
            break


class NodeEnlargement:
    """Replacements of the new nodes of one plan."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._exchange = NodeExchange(state)
        self._arrays = KnownOfferArrays()
        self._marks: dict[tuple[int, int], Marks] = {}
        self._refused: set[object] = set()
        self.work = 0

    def replace_best(self) -> bool:
        """Make the best replacement for all nodes that are alike; return whether there was one, if only one that a rule
        refused."""
        left = [group for group in self._state.groups.pending if self._state.left[group] and not group.refused]
        left.sort(key=lambda group: (group.rank, group.index))
        pools = dict.fromkeys(node.choice.pool_offers for node in self._state.new if node.choice)
        patterns = [pattern for pool_offers in pools for pattern in patterns_of(self._state, pool_offers)]
        found: list[tuple[Rank, NodeOffer, Pattern]] = []
        for pattern in patterns:
            if self.work >= MOST_WORK:
                break
            if (best := self._best_of(pattern, left)) is not None:
                found.append((*best, pattern))
        if not found:
            return False
        _, one, pattern = min(found, key=lambda each: each[0])
        for node in pattern.nodes:
            if not self._state.pods_left:
                break
            if not self._enlarge(node, pattern.choice, one, left):
                self._refused.add(_kind(pattern, one))
                break
        return True

    def _best_of(self, pattern: Pattern, left: Sequence[PodGroup]) -> tuple[Rank, NodeOffer] | None:
        """Return the best larger offer for a node of the pattern; None if there is none."""
        pool_offers, variant = pattern.choice.pool_offers, pattern.choice.variant
        arrays = self._arrays.of(variant)
        zone = pattern.choice.one.label(names.ZONE)
        marks = arrays.open_to(self._state, pattern) & arrays.equal(names.ZONE, zone)
        free = arrays.free - np.array(sum_needs(pattern.planned, arrays.free.shape[1]), float)
        offers = np.flatnonzero(marks & (free >= 0).all(axis=1))
        free, present = free[offers], dict(pattern.planned)
        gain = np.zeros(len(offers))
        for group in left if len(offers) else ():
            self.work += 1
            need = np.array(sum_needs([(group, 1)], free.shape[1]), float)
            used = need > 0
            number = np.floor(free[:, used] / need[used] + TINY).min(axis=1) if used.any() else np.full(len(free), 1e9)
            number = np.clip(number, 0, self._most(group, pool_offers, present.get(group, 0)))
            number[~self._may_hold(variant, group)[offers]] = 0
            free -= number[:, None] * need
            gain += number
        gains = dict(zip(offers.tolist(), gain.tolist(), strict=True))
        able = [at for at, more in gains.items() if more and _kind(pattern, arrays.offers[at]) not in self._refused]
        if not able:
            return None
        extra = np.maximum(arrays.price - pattern.price, 0.0)
        ranks = {at: (round(float(extra[at] / gains[at]), 9), -int(gains[at]), int(arrays.place[at])) for at in able}
        best = min(able, key=lambda at: ranks[at])
        return ranks[best], arrays.offers[best]

    def _may_hold(self, variant: PoolVariant, group: PodGroup) -> Marks:
        """Return which offers of the pool may hold pods of the group."""
        key = (id(variant), group.index)
        if key not in self._marks:
            self._marks[key] = self._arrays.of(variant).marked(variant.bits[group.index])
        return self._marks[key]

    def _most(self, group: PodGroup, pool_offers: PoolOffers, present: int) -> int:
        """Return how many further pods of a group one node of the pool may hold beside those that are present."""
        share, left = pool_offers.pool.planning.blast_radius.share, self._state.left[group]
        return left if share is None else max(0, min(left, most_on_a_node(group, share) - present))

    def _enlarge(self, node: NodeState, choice: OfferChoice, one: NodeOffer, left: Sequence[PodGroup]) -> bool:
        """Replace a node and put pods on the new one; return whether it took any. Otherwise nothing changes."""
        state, taints = self._state, choice.pool_offers.pool.taints
        groups = group_mask(
            group
            for group in state.groups.pending
            if choice.variant.bits[group.index] >> one.index & 1 and group.constraints.untolerated(taints) is None
        )
        present = dict(node.planned)
        if not self._exchange.replace([node], OfferChoice(choice.pool_offers, choice.variant, one, groups)):
            return False
        new = state.new[-1]
        came = 0
        for group in left:
            came += state.put(group, new, self._most(group, choice.pool_offers, present.get(group, 0)))
        if not came:
            self._exchange.replace([new], choice)
        return came > 0


def _kind(pattern: Pattern, one: NodeOffer) -> object:
    """Return what a refused replacement has in common with equal ones."""
    planned = tuple((group.index, number) for group, number in pattern.planned)
    return pattern.choice.one.index, id(pattern.choice.variant), planned, one.index
