"""First-fit as other autoscalers pack, on the same arrays: the price of plans is compared with it and is never higher.

Karpenter's order: pods by CPU, then memory, the largest first. Each pod goes to the first node for which some
instance type still fits, the emptiest nodes first. At the end, a node becomes the cheapest offer that holds all of
its pods. Domains are assigned before, as for the search.

Equal pods follow each other, so how many more of them a node can hold is computed once for all of them.
"""

from heapq import heapify, heappop, heappush

import numpy as np

from joiner.cluster.resources import CPU, MEMORY
from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing.node_filling import NO_PACKING, NodePattern, Packing
from joiner.planning.relaxation.packing_problem import PackingProblem


def pack_first_fit(problem: PackingProblem, demand: Whole) -> Packing:
    """Pack all of this demand, pod after pod; return NO_PACKING if some pod fits no offer."""
    columns = [problem.resources.index(name) for name in (CPU, MEMORY) if name in problem.resources]
    order = np.lexsort((np.arange(problem.items), *(-problem.need[:, column] for column in reversed(columns))))
    nodes = _OpenNodes(problem)
    for item in order.tolist():
        if demand[item] and not nodes.place(item, int(demand[item])):
            return NO_PACKING
    return nodes.packing()


class _OpenNodes:
    """The nodes so far, a row each: the number of pods of each item, their total requests, the offers that hold them,
    the most that one of these offers has free of each resource, and for each rule about hosts how many pods it counts
    and whether a pod asks for it."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        resources, rules = problem.need.shape[1], len(problem.caps)
        self._counts: Whole = np.zeros((0, problem.items), np.int64)
        self._needs: Floats = np.zeros((0, resources))
        self._able: Marks = np.zeros((0, len(problem.price)), bool)
        self._free: Floats = np.zeros((0, resources))
        self._counted: Whole = np.zeros((0, rules), np.int64)
        self._asked: Marks = np.zeros((0, rules), bool)

    def place(self, item: int, number: int) -> bool:
        """Place so many pods of an item one after the other; return whether some offer holds such a pod."""
        rules, resources = len(self._problem.caps), self._problem.need.shape[1]
        by_rules = self._more_by_rules(item, self._counted, self._asked)
        able = np.flatnonzero((self._free >= self._problem.need[item]).all(axis=1) & (by_rules >= 1))
        emptiest = [*zip(self._counts[able].sum(axis=1).tolist(), able.tolist(), strict=True)]
        heapify(emptiest)
        alone = self._more_by_rules(item, np.zeros((1, rules), np.int64), np.zeros((1, rules), bool))
        each = min(self._more(item, np.zeros(resources), np.ones(len(self._problem.price), bool)), float(alone[0]))
        more: dict[int, float] = {}
        placed = [0] * len(self._counts)
        left = number
        while left:
            if emptiest:
                size, node = heappop(emptiest)
                if node not in more:
                    more[node] = min(self._more(item, self._needs[node], self._able[node]), float(by_rules[node]))
            elif each < 1:
                return False
            else:
                size, node = 0, len(placed)
                more[node] = each
                placed.append(0)
            if more[node] < 1:
                continue
            more[node] -= 1
            placed[node] += 1
            left -= 1
            heappush(emptiest, (size + 1, node))
        self._add(item, np.array(placed, np.int64))
        return True

    def packing(self) -> Packing:
        """Return the nodes, each of the cheapest offer that holds its pods."""
        patterns, price = [], 0.0
        for row, able in zip(self._counts, self._able, strict=True):
            offers = np.flatnonzero(able)
            offer = int(offers[self._problem.price[offers].argmin()])
            inside = np.flatnonzero(row)
            patterns.append(NodePattern(offer, inside, row[inside], 1))
            price += float(self._problem.price[offer])
        return Packing(price, tuple(patterns))

    def _more(self, item: int, needs: Floats, able: Marks) -> float:
        """Return how many more pods of an item a node with these requests holds as one of these offers."""
        problem = self._problem
        own, offers = problem.need[item], np.flatnonzero(able & problem.open[:, item])
        asked = np.flatnonzero(own)
        free = np.maximum(problem.free[np.ix_(offers, asked)] - needs[asked], 0.0)
        return float(np.floor(free / own[asked]).min(axis=1, initial=np.inf).max(initial=0.0))

    def _more_by_rules(self, item: int, counted: Whole, asked: Marks) -> Floats:
        """Return how many more pods of an item the rules about hosts allow on each node."""
        problem = self._problem
        left = problem.caps - counted
        allowed = np.where(problem.counts[:, item], np.maximum(left, 0), np.where(left < 0, 0.0, np.inf))
        most: Floats = np.where(asked | problem.asks[:, item], allowed, np.inf).min(axis=1, initial=np.inf)
        return most

    def _add(self, item: int, placed: Whole) -> None:
        new = len(placed) - len(self._counts)
        problem = self._problem
        self._counts = np.concatenate([self._counts, np.zeros((new, problem.items), np.int64)])
        self._needs = np.concatenate([self._needs, np.zeros((new, problem.need.shape[1]))])
        self._able = np.concatenate([self._able, np.ones((new, len(problem.price)), bool)])
        self._free = np.concatenate([self._free, np.zeros((new, problem.need.shape[1]))])
        self._counted = np.concatenate([self._counted, np.zeros((new, len(problem.caps)), np.int64)])
        self._asked = np.concatenate([self._asked, np.zeros((new, len(problem.caps)), bool)])
        changed = np.flatnonzero(placed)
        self._counted[changed] += placed[changed, None] * problem.counts[:, item]
        self._asked[changed] |= problem.asks[:, item]
        self._counts[changed, item] += placed[changed]
        self._needs[changed] += placed[changed, None] * problem.need[item]
        able = self._able[changed] & problem.open[:, item]
        for resource in range(problem.need.shape[1]):
            able &= problem.free[None, :, resource] >= self._needs[changed, None, resource]
        self._able[changed] = able
        for resource in range(problem.need.shape[1]):
            most = np.where(able, problem.free[None, :, resource], -1.0).max(axis=1)
            self._free[changed, resource] = most - self._needs[changed, resource]
