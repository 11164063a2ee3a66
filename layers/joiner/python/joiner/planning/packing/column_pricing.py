"""The best possible node at given prices of pods, found by exhaustive search with pruning, and the bound that it
proves.

If each pod has a worth, and no node of any offer holds pods worth more than its price, then no plan is cheaper than
the total worth of all pods, because in every plan each pod is on a node. If some node holds pods worth a few
percent more than its price, all worths are too high by that share. Pods and nodes are whole here, so the bound is
sharper than that of the relaxation, and the nodes that it finds are the columns that help most. If many small pods
share a node, the search is too large; in that case fractions lose little.
"""

from dataclasses import dataclass, replace
from typing import Final

import highspy
import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing.kernel.compiled_kernel import MOST_VIEWS, Kernel, NodeSearchResult
from joiner.planning.packing.node_filling import NodeFiller, NodePattern
from joiner.planning.relaxation.lp_solver import quiet_solver, run_solver
from joiner.planning.relaxation.lp_values import Relaxation

QUICK_STEPS: Final = 10_000
"""The step limit for one offer: small, because it is sufficient for most offers."""
PATIENCE: Final = 3_000_000
MOST_PATIENCE: Final = 12_000_000
"""The step limit for all offers together that need more; usually one or two do."""
STEPS_OF_A_MILLISECOND: Final = 65_000.0
KEPT: Final = 24
"""The number of nodes of one offer that are kept, including good ones that are not optimal: they are columns, too."""
SURE: Final = 1e-6
"""A share of a price that exceeds all rounding errors of float sums."""


@dataclass(frozen=True, slots=True, eq=False)
class PricedColumns:
    """The result. ``patterns`` are worth more than they cost; the best of them is worth ``likely`` times its price. No
    node is worth more than ``most`` times its price (both are at least 1). ``spent`` is in steps of the meter."""

    patterns: tuple[NodePattern, ...]
    likely: float
    most: float
    spent: float


class ColumnPricer:
    """All offers of a problem, for one demand."""

    def __init__(self, filler: NodeFiller, kernel: Kernel, demand: Whole, relaxation: Relaxation) -> None:
        self._problem, self._filler, self._kernel = filler.problem, filler, kernel
        self._active = np.flatnonzero(demand > 0)
        self._demand = demand[self._active].astype(float)
        self._open: Marks = filler.problem.open[:, self._active]
        views = np.unique(relaxation.rates[relaxation.nodes > 0][:, filler.resources], axis=0)
        self._views = np.concatenate([views[views.any(axis=1)], np.eye(len(filler.resources))])
        self._takes = filler.need[self._active] @ self._views.T
        self._held = filler.free @ self._views.T

    @classmethod
    def of(cls, filler: NodeFiller, demand: Whole, relaxation: Relaxation) -> "ColumnPricer | None":
        """Return a pricer, or None if it would not be exact: without the compiled kernel, or with rules about several
        items on one node."""
        return cls(filler, filler.kernel, demand, relaxation) if filler.kernel and not len(filler.caps) else None

    def price(self, worth: Floats, patience: float, quick_steps: int = QUICK_STEPS) -> PricedColumns:
        """Price every offer with these worths (of all items of the problem).

        Each offer is searched with ``quick_steps`` steps. Offers that need more are searched with resource prices of
        their own, with ``patience`` steps for all of them together.
        """
        problem, mine = self._problem, worth[self._active]
        hopes = self._hopes(mine)
        tried: dict[int, NodeSearchResult] = {}
        spent = 0.5
        for offer in np.flatnonzero(hopes.min(axis=1) > problem.price * (1 + SURE)).tolist():
            if not np.isfinite(hopes[offer].min()):
                return PricedColumns((), np.inf, np.inf, spent)
            tried[offer] = self._tried(offer, mine, self._views_of(hopes[offer]), quick_steps)
            spent += 0.03 + tried[offer].steps / STEPS_OF_A_MILLISECOND
        hard = sorted(
            (float(hopes[offer].min() / problem.price[offer]), offer)
            for offer, one in tried.items()
            if one.steps > quick_steps
        )
        left = patience
        for others, (_, offer) in zip(
            range(len(hard), 0, -1), hard, strict=True
        ):  # Offers with low bounds are finished quickly and leave steps for the others.
            if left <= quick_steps * others:
                break
            views = np.concatenate([self._own_view(offer, mine), self._views_of(hopes[offer])])
            again = self._tried(offer, mine, views, int(left / others))
            left -= again.steps
            spent += 0.4 + again.steps / STEPS_OF_A_MILLISECOND
            both = np.concatenate([tried[offer].counts, again.counts])
            tried[offer] = replace(again, counts=both, proven=min(tried[offer].proven, again.proven))
        likely, most, found = 1.0, 1.0 + SURE, list[NodePattern]()
        for offer, one in tried.items():
            price = float(problem.price[offer])
            likely = max(likely, float((one.counts @ mine).max(initial=0.0)) / price)
            most = max(most, one.proven / price)
            for row in one.counts:
                inside = np.flatnonzero(row)
                found.append(NodePattern(offer, self._active[inside], row[inside], 1))
        return PricedColumns(tuple(found), likely, most * (1 + 1e-8), spent)

    def _views_of(self, hopes: Floats) -> Floats:
        """Return the resource prices with the lowest bounds."""
        best = np.argsort(hopes, kind="stable")[:MOST_VIEWS]
        views: Floats = self._views[best[np.isfinite(hopes[best])]]
        return views

    def _tried(self, offer: int, worth: Floats, views: Floats, patience: int) -> NodeSearchResult:
        enough = float(self._problem.price[offer]) * (1 + SURE)
        return self._kernel.best_nodes(
            offer, self._active, self._demand, worth, rates=views, enough=enough, patience=patience, kept=KEPT
        )

    def _own_view(self, offer: int, worth: Floats) -> Floats:
        """Return the resource prices that give the lowest bound for a node of this offer: the dual prices of its
        capacity for divisible pods."""
        need, free = self._filler.need[self._active], self._filler.free[offer]
        inside = np.flatnonzero(self._open[offer] & (worth > 0) & (need <= free).all(axis=1))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = need.shape[1], len(inside)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = (
            free,
            np.zeros(need.shape[1]),
            np.full(need.shape[1], highspy.kHighsInf),
        )
        lp.row_lower_, lp.row_upper_ = worth[inside], np.full(len(inside), highspy.kHighsInf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.arange(0, need.shape[1] * (len(inside) + 1), need.shape[1], dtype=np.int32)
        lp.a_matrix_.index_ = np.tile(np.arange(need.shape[1], dtype=np.int32), len(inside))
        lp.a_matrix_.value_ = need[inside].ravel()
        solver = quiet_solver()
        solver.passModel(lp)
        run_solver(solver)
        rates: Floats = np.maximum(np.array([solver.getSolution().col_value]), 0.0)
        return rates

    def _hopes(self, worth: Floats) -> Floats:
        """Return the upper bound of the worth of a node of each offer, for each set of resource prices."""
        ratio = np.divide(worth[:, None], self._takes, out=np.full(self._takes.shape, np.inf), where=self._takes > 0)
        ratio[worth <= 0] = 0.0
        best = np.where(self._open[:, :, None], ratio[None], 0.0).max(axis=1, initial=0.0)
        hopes: Floats = np.multiply(best, self._held, out=np.full(best.shape, np.inf), where=np.isfinite(best))
        return hopes
