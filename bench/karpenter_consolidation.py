"""Karpenter's consolidation on arrays, by its rules, for comparison: multi-node by binary search, then single-node.

Source: the description of Karpenter's controllers (emptiness, multi-node and single-node consolidation). Each command
is executed before the next one is searched. Pods have requests and no other rules, so that a simulation is a first-fit
over the nodes in their order and at most one new node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Whole

MOST_CANDIDATES: Final = 100
BUDGET: Final = 0.10


@dataclass(slots=True)
class ConsolidationOutcome:
    """What the commands did: the price in $/h after each of them and the evictions until then."""

    prices: list[float] = field(default_factory=list)
    evictions: list[int] = field(default_factory=list)
    commands: int = 0
    simulations: int = 0
    launched: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """A simulation that places every pod: the node of each (-1: the new one), and the new node's type or -1."""

    pods: Whole
    nodes: Whole
    type: int


class KarpenterConsolidation:
    """Pods with ``requests`` (P, R) on ``node`` (P); ``type_`` (N) of nodes; ``capacity`` (T, R), ``price``."""

    def __init__(self, requests: Floats, node: Whole, type_: Whole, capacity: Floats, price: Floats) -> None:
        self._requests = requests
        self._capacity = capacity
        self._price = price
        self._types: list[int] = [int(one) for one in type_]
        self._alive: list[bool] = [True] * len(type_)
        self._pods: list[list[int]] = [[] for _ in type_]
        for pod, where in enumerate(node.tolist()):
            self._pods[where].append(pod)
        self._free = capacity[type_].copy()
        np.subtract.at(self._free, node, requests)
        self.outcome = ConsolidationOutcome()

    @property
    def price(self) -> float:
        """Return the price of the nodes that are left, in $/h."""
        return float(sum(self._price[one] for one, alive in zip(self._types, self._alive, strict=True) if alive))

    def run(self, *, most_commands: int = 10_000) -> ConsolidationOutcome:
        """Execute commands until none is found."""
        for node, pods in enumerate(self._pods):
            self._alive[node] = bool(pods)
        self._note(0)
        while self.outcome.commands < most_commands:
            order = sorted(
                (node for node, alive in enumerate(self._alive) if alive and self._pods[node]),
                key=lambda node: (-self._price[self._types[node]] / (1 + len(self._pods[node])), node),
            )
            allowed = max(1, -(-int(BUDGET * 1000 * sum(self._alive)) // 1000))
            found = self._multi_node(order[: min(allowed, MOST_CANDIDATES)]) or self._single_node(order)
            if found is None:
                break
            self._execute(*found)
        return self.outcome

    def _multi_node(self, order: Sequence[int]) -> tuple[list[int], Replacement] | None:
        best, low, high = None, 1, len(order) - 1
        while low <= high:
            middle = (low + high) // 2
            nodes = list(order[: middle + 1])
            made = self._simulate(nodes)
            if made is not None:
                best, low = (nodes, made), middle + 1
            else:
                high = middle - 1
        return best

    def _single_node(self, order: Sequence[int]) -> tuple[list[int], Replacement] | None:
        for node in order:
            made = self._simulate([node])
            if made is not None:
                return [node], made
        return None

    def _simulate(self, nodes: list[int]) -> Replacement | None:
        self.outcome.simulations += 1
        pods = np.array([pod for node in nodes for pod in self._pods[node]], dtype=np.int64)
        asked = self._requests[pods]
        order = np.lexsort((pods, -asked[:, 1], -asked[:, 0]))
        free = self._free.copy()
        free[np.array(nodes)] = -1
        free[~np.array(self._alive)] = -1
        total, able, target = np.zeros(asked.shape[1]), np.ones(len(self._price), bool), np.empty(len(pods), np.int64)
        new = False
        for at in order.tolist():
            fits = (free >= asked[at]).all(axis=1)
            where = int(fits.argmax())
            if fits[where]:
                free[where] -= asked[at]
                target[at] = where
                continue
            left = able & (self._capacity >= total + asked[at]).all(axis=1)
            if not left.any():
                return None
            total, able, target[at], new = total + asked[at], left, -1, True
        if not new:
            return Replacement(pods, target, -1)
        type_ = self._replacement_type(nodes, able)
        return None if type_ is None else Replacement(pods, target, type_)

    def _replacement_type(self, nodes: Sequence[int], able: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
        """Return the cheapest type that saves money; with several nodes, none that is removed or costs as much."""
        able = able & (self._price < sum(self._price[self._types[node]] for node in nodes))
        if len(nodes) > 1:
            removed = {self._types[node] for node in nodes}
            same = [self._price[one] for one in np.flatnonzero(able).tolist() if one in removed]
            able &= self._price < min(same, default=np.inf)
        found = np.flatnonzero(able)
        return int(found[self._price[found].argmin()]) if len(found) else None

    def _execute(self, nodes: Sequence[int], made: Replacement) -> None:
        if made.type >= 0:
            self._types.append(made.type)
            self._alive.append(True)
            self._pods.append([])
            self._free = np.vstack([self._free, self._capacity[made.type][None]])
            self.outcome.launched += 1
        for pod, where in zip(made.pods.tolist(), made.nodes.tolist(), strict=True):
            target = len(self._types) - 1 if where < 0 else where
            self._pods[target].append(pod)
            self._free[target] -= self._requests[pod]
        for node in nodes:
            self._alive[node], self._pods[node] = False, []
        self.outcome.commands += 1
        self._note(len(made.pods))

    def _note(self, evicted: int) -> None:
        before = self.outcome.evictions[-1] if self.outcome.evictions else 0
        self.outcome.prices.append(self.price)
        self.outcome.evictions.append(before + evicted)
