"""The best node there can be at given prices of pods, found by trying all that could still be better; and what that proves.

If pods are worth so much, and no node of any offer holds pods that are worth more than its price, then no plan is cheaper than all pods
together are worth: in every plan each pod is on a node. If some node holds pods worth a few percent more than its price, all worths are so
much too high. This knows whole pods and whole nodes' worth of them, so the bound is sharper than that of fractions, and the nodes that it
finds are the columns that help most. Where many small pods share a node there is too much to try; there, fractions lose little.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.kernel import MOST_VIEWS, Kernel
from joiner.planning.packing import Bench, Pattern
from joiner.planning.resource_lp import Relaxation

PATIENCE: Final = 300_000
HASTY: Final = 10_000
"""Steps for one offer: few as long as nodes are easily found."""
STEPS_OF_A_MILLISECOND: Final = 45_000.0
KEPT: Final = 24
"""Nodes of one offer that are kept, the better ones found on the way included: they are columns, too."""
SURE: Final = 1e-6
"""Of a price: more than all sums of floats err."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """``patterns`` that are worth more than they cost. No node is worth more than ``most`` times its price (1 at least). ``spent`` is in
    steps of the meter."""

    patterns: tuple[Pattern, ...]
    most: float
    spent: float


class Pricer:
    """All offers of a problem, for one demand."""

    def __init__(self, bench: Bench, kernel: Kernel, demand: Whole, relaxation: Relaxation) -> None:
        self._problem, self._bench, self._kernel = bench.problem, bench, kernel
        self._active = np.flatnonzero(demand > 0)
        self._demand = demand[self._active].astype(float)
        self._open: Marks = bench.problem.open[:, self._active]
        views = np.unique(relaxation.rates[relaxation.nodes > 0][:, bench.resources], axis=0)
        self._views = np.concatenate([views[views.any(axis=1)], np.eye(len(bench.resources))])
        self._takes = bench.need[self._active] @ self._views.T
        self._held = bench.room @ self._views.T

    @classmethod
    def of(cls, bench: Bench, demand: Whole, relaxation: Relaxation) -> "Pricer | None":
        """None where it would not know what it says: without the compiled kernel, or with rules about several items on one node."""
        return cls(bench, bench.kernel, demand, relaxation) if bench.kernel and not len(bench.caps) else None

    def look(self, worth: Floats, patience: int) -> Priced:
        """At every offer, with pods worth so much (all items of the problem), so many steps for each."""
        problem, mine = self._problem, worth[self._active]
        hopes = self._hopes(mine)
        found: list[Pattern] = []
        most, spent = 1.0 + SURE, 0.5
        for offer in np.flatnonzero(hopes.min(axis=1) > problem.price * (1 + SURE)).tolist():
            price = float(problem.price[offer])
            best = np.argsort(hopes[offer], kind="stable")[:MOST_VIEWS]
            best = best[np.isfinite(hopes[offer, best])]
            if not len(best):
                return Priced((), np.inf, spent)
            enough = price * (1 + SURE)
            tried = self._kernel.dearest(
                offer, self._active, self._demand, mine, rates=self._views[best], enough=enough, patience=patience, kept=KEPT
            )
            most, spent = max(most, tried.proven / price), spent + 0.03 + tried.steps / STEPS_OF_A_MILLISECOND
            for row in tried.counts:
                inside = np.flatnonzero(row)
                found.append(Pattern(offer, self._active[inside], row[inside], 1))
        return Priced(tuple(found), most * (1 + 1e-9), spent)

    def _hopes(self, worth: Floats) -> Floats:
        """What a node of each offer could be worth at most, by each view."""
        ratio = np.divide(worth[:, None], self._takes, out=np.full(self._takes.shape, np.inf), where=self._takes > 0)
        ratio[worth <= 0] = 0.0
        best = np.where(self._open[:, :, None], ratio[None], 0.0).max(axis=1, initial=0.0)
        hopes: Floats = np.multiply(best, self._held, out=np.full(best.shape, np.inf), where=np.isfinite(best))
        return hopes
