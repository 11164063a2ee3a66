"""Local search by swaps: pods move between two nodes, or swap places, if cheaper offers then hold them.

All moves between two nodes are priced at once and the best one is made, until no pair of nodes has a move that
lowers the price.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing.node_filling import NodePattern, Packing
from joiner.planning.packing.search_context import SearchContext
from joiner.planning.relaxation.packing_problem import PackingProblem

PAYS: Final = 1e-9


@dataclass(slots=True)
class PackedNodes:
    """A packing that is being changed: the pods of each node, their requests, the offers that could hold them, and the
    price."""

    counts: Whole
    need: Floats
    able: Marks
    offer: Whole
    price: Floats

    @classmethod
    def of(cls, problem: PackingProblem, packing: Packing) -> "PackedNodes":
        """Return the nodes of a packing as arrays, one row for each node."""
        rows = [one for one in packing.patterns for _ in range(one.times)]
        counts = np.zeros((len(rows), problem.items), dtype=np.int64)
        for row, one in enumerate(rows):
            counts[row, one.items] = one.counts
        offer = np.array([one.offer for one in rows], dtype=np.int64)
        able: Marks = np.stack([_able(problem, row) for row in counts])
        return cls(counts, counts @ problem.need, able, offer, problem.price[offer])

    def packing(self) -> Packing:
        """Return the packing of the rows that have pods."""
        patterns = []
        for row, offer in zip(self.counts, self.offer, strict=True):
            items = np.flatnonzero(row)
            if len(items):
                patterns.append(NodePattern(int(offer), items, row[items], 1))
        return Packing(float(self.price[self.counts.any(axis=1)].sum()), tuple(patterns))


def _able(problem: PackingProblem, counts: Whole) -> Marks:
    able: Marks = np.logical_and.reduce(problem.open[:, counts > 0], axis=1)
    return able


def swap_pods(problem: PackingProblem, packing: Packing, context: SearchContext, *, share: float = 1.0) -> Packing:
    """Return a packing that is at most as expensive as before."""
    if packing.nodes < 2:
        return packing
    nodes = PackedNodes.of(problem, packing)
    by_price = np.argsort(problem.price, kind="stable")
    queue = deque((one, other) for one in range(len(nodes.price)) for other in range(one))
    waiting = set(queue)
    while queue and not context.meter.spent(share):
        pair = queue.popleft()
        waiting.discard(pair)
        if not (nodes.counts[pair[0]].any() and nodes.counts[pair[1]].any()):
            continue
        changed = False
        while _improve(problem, nodes, pair, by_price, context):
            changed = True
        for one in pair if changed else ():
            for other in range(len(nodes.price)):
                again = (max(one, other), min(one, other))
                if other not in pair and again not in waiting:
                    queue.append(again)
                    waiting.add(again)
    found = nodes.packing()
    return found if found.price < packing.price - PAYS else packing


def _improve(
    problem: PackingProblem, nodes: PackedNodes, pair: tuple[int, int], by_price: Whole, context: SearchContext
) -> bool:
    """Make the best exchange between two nodes if it lowers the price; return whether it did."""
    one, other = pair
    given, taken = _exchanges(nodes.counts[one], nodes.counts[other])
    if not len(given):
        return False
    context.meter.spend(0.3 + 6e-5 * given.size + 2e-5 * len(given) * len(problem.price))
    moved = given @ problem.need - taken @ problem.need
    first, second = nodes.need[one] - moved, nodes.need[other] + moved
    price_first, offer_first = _priced(problem, first, nodes.able[one], taken, by_price)
    price_second, offer_second = _priced(problem, second, nodes.able[other], given, by_price)
    empty = (given.sum(axis=1) == nodes.counts[one].sum()) & ~taken.any(axis=1)
    price_first[empty] = 0.0
    empty = (taken.sum(axis=1) == nodes.counts[other].sum()) & ~given.any(axis=1)
    price_second[empty] = 0.0
    if len(problem.caps):
        moving = given - taken
        price_second[problem.clashing(nodes.counts[other] + moving) | problem.clashing(nodes.counts[one] - moving)] = (
            np.inf
        )
    costs = price_first + price_second
    best = int(costs.argmin())
    if costs[best] >= nodes.price[one] + nodes.price[other] - PAYS:
        return False
    change = given[best] - taken[best]
    for node, sign, offer, price in (
        (one, -1, offer_first[best], price_first[best]),
        (other, 1, offer_second[best], price_second[best]),
    ):
        nodes.counts[node] += sign * change
        nodes.need[node] = nodes.counts[node] @ problem.need
        nodes.able[node] = _able(problem, nodes.counts[node])
        nodes.offer[node], nodes.price[node] = offer, price
    return True


def _exchanges(one: Whole, other: Whole) -> tuple[Whole, Whole]:
    """Return the possible exchanges: all pods, one pod or all pods of an item, or one pod for one."""
    here, there = np.flatnonzero(one), np.flatnonzero(other)
    width = len(one)
    unit = np.eye(width, dtype=np.int64)
    nothing = np.zeros(width, dtype=np.int64)
    given, taken = [one[None, :], nothing[None, :]], [nothing[None, :], other[None, :]]
    for counts, items, into, back in ((one, here, given, taken), (other, there, taken, given)):
        several = items[counts[items] > 1]
        moves = np.concatenate([unit[items], unit[several] * counts[several, None]])
        into.append(moves)
        back.append(np.zeros_like(moves))
    swaps_out, swaps_in = np.repeat(here, len(there)), np.tile(there, len(here))
    different = swaps_out != swaps_in
    given.append(unit[swaps_out[different]])
    taken.append(unit[swaps_in[different]])
    return np.concatenate(given), np.concatenate(taken)


def _priced(
    problem: PackingProblem, need: Floats, able: Marks, arriving: Whole, by_price: Whole
) -> tuple[Floats, Whole]:
    """Return for each content the cheapest offer that holds it. Leaving pods are ignored: an offer that was closed to
    them stays closed."""
    held = np.broadcast_to(able[by_price], (len(need), len(by_price))).copy()
    for resource in range(need.shape[1]):
        held &= need[:, resource, None] <= problem.free[by_price, resource][None, :]
    closed = ~problem.open[by_price]
    narrow = np.flatnonzero(closed.any(axis=0))
    if len(narrow):
        held &= (arriving[:, narrow].astype(float) @ closed[:, narrow].T.astype(float)) == 0
    first = held.argmax(axis=1)
    price = np.where(held[np.arange(len(need)), first], problem.price[by_price[first]], np.inf)
    return price, by_price[first]
