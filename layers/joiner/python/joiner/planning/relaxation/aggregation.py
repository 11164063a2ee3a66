"""The relaxation for many kinds of pods: over *bundles* of them. This is a small program with a proven, very small
loss.

A bundle is a few items that flow together, in fixed proportions, to offers that are open to all of them. That can
only make the mix more expensive, so its price is above the optimum. The dual prices of its resources give the worth
of each single pod. These worths, scaled until no offer earns more than it costs, give a value below the optimum. If
the two values meet, both equal the optimum. If they do not, the bundles whose items disagree about the offers are
split.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from joiner.planning.arrays import Floats, Marks, Whole, distinct_rows
from joiner.planning.relaxation.lp_values import Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.relaxation.resource_lp import LARGE_SLACK, TIGHT, ResourceLp
from joiner.planning.relaxation.worth_scaling import worth_to_price_ratio

TURNS: Final = 8
ROUGH_TURNS: Final = 3
ROUGH_SLACK: Final = 5e-3
"""For the rest of a plan that is being rounded: it proves nothing, and half a percent of a part is little of the whole
plan."""
WORST: Final = 4
"""The number of offers with the largest excess that are examined in an iteration."""
MOST_BUNDLES: Final = 0.7
"""More bundles per item bring no gain."""


def solve_aggregated(
    problem: PackingProblem, demand: Whole, allowed: Marks, offers: Whole, *, rough: bool
) -> Relaxation | None:
    """Return the relaxation for this demand and the allowed offers, or None if bundles are not precise enough.

    Its ``value`` is less than a few parts in ten thousand below the optimum. With ``rough``, the result of a few
    iterations is sufficient. ``offers`` are probably part of the solution.
    """
    slack, tightness = (ROUGH_SLACK, 1.0) if rough else (LARGE_SLACK, TIGHT)
    view = DemandView(problem, demand, allowed, np.flatnonzero(demand))
    kept, marks = np.zeros(len(problem.caps), bool), [view.kinds()]
    disaggregate = None
    for _ in range(ROUGH_TURNS if rough else TURNS):
        bundle = number_rows([*marks, *view.under(kept)])
        if bundle.max() > MOST_BUNDLES * len(bundle):
            break
        small, amount = view.aggregate_problem(bundle, kept)
        found = ResourceLp(small, offers=offers).solve(amount, allowed)
        offers = found.offers
        tight = ~kept & (view.members > tightness * found.nodes.sum())
        if tight.any():  # The tightest caps first, as in the program itself.
            kept |= tight & (view.members >= view.members[tight].max() / 2)
            continue
        disaggregate = view.disaggregate(found, bundle, kept)
        if disaggregate.value >= found.value * (1 - slack):
            return replace(disaggregate, firm=bool(problem.firm[kept][found.caps].all()))
        marks = [bundle, *view.disagreements(found, disaggregate, kept, slack)]
    return disaggregate if rough else None


class DemandView:
    """One demand of a problem: only the ``items`` in it. ``members``: the number of nodes that each cap requires."""

    def __init__(self, problem: PackingProblem, demand: Whole, allowed: Marks, items: Whole) -> None:
        self.problem = problem
        self.allowed = allowed
        self.items = items
        self.number: Floats = demand[items].astype(float)
        self.need = problem.need[items]
        self.open: Marks = problem.open[:, items] & allowed[:, None]
        self._ways, self._way = distinct_rows(self.open)
        self.capped = problem.capped[:, items]
        self.members: Floats = self.capped @ self.number / np.maximum(problem.caps, 1)

    def kinds(self) -> Whole:
        """Return a kind for each item. Items of one kind have a similar size, a similar mix of resources, and the same
        large offers; they are likely to flow together."""
        need, free = self.need, self.problem.free
        share = need / np.maximum(free[self.allowed].max(axis=0, initial=1.0), 1e-9)
        size = np.maximum(share.max(axis=1), 1e-12)
        mix = np.maximum(np.round(np.log(np.maximum(share / size[:, None], 1e-3)) / np.log(3.0)), -2)
        large_enough = self.allowed & (free >= need.max(axis=0, initial=0.0)).all(axis=1)
        level = np.floor(np.log(size) / np.log(6.0))
        usable = self.open.T & (
            large_enough | ~self.open[large_enough].any(axis=0)[:, None]
        )  # Items without a large offer are bundled only with items that have equal offers.
        return number_rows([np.concatenate([level[:, None], mix], axis=1).astype(np.int8), np.packbits(usable, axis=1)])

    def under(self, kept: Marks) -> list[Whole]:
        """Return a number for each item: 0 without a binding cap, otherwise equal for items with equal requests,
        offers and caps. Items are bundled only with items of equal number."""
        if not kept.any():
            return []
        capped = self.capped[kept]
        alike = number_rows([self.need, np.packbits(self.open.T, axis=1), capped.T])
        return [np.where(capped.any(axis=0), alike + 1, 0)]

    def aggregate_problem(self, bundle: Whole, kept: Marks) -> tuple[PackingProblem, Whole]:
        """Return the problem with bundles in place of items, and the number of pods of each bundle."""
        own = self.number
        amount: Whole = np.bincount(bundle, weights=own).astype(np.int64)
        need = np.stack([np.bincount(bundle, weights=own * column) for column in self.need.T], axis=1)
        order = np.argsort(bundle, kind="stable")
        starts = np.searchsorted(bundle[order], np.arange(len(amount)))
        sample = order[starts]
        asks, counts = (rows[kept][:, self.items[sample]] for rows in (self.problem.asks, self.problem.counts))
        small = replace(
            self.problem,
            need=need / amount[:, None],
            demand=amount,
            open=np.logical_and.reduceat(self.open[:, order], starts, axis=1),
            asks=asks & counts,
            counts=asks & counts,
            caps=self.problem.caps[kept],
            firm=self.problem.firm[kept],
            members=(),
            merged=None,
        )
        return small, amount

    def cost(self, found: Relaxation, kept: Marks) -> Floats:
        """Return what a pod of each item costs on each used offer, by the dual prices there; infinite if the offer is
        not open to it."""
        used = np.flatnonzero(found.nodes > 0)
        whole = self._need(found, kept) @ self._rates(found)[used].T
        priced: Floats = np.where(self.open[found.offers[used]].T, whole, np.inf)
        return priced

    def disaggregate(self, found: Relaxation, bundle: Whole, kept: Marks) -> Relaxation:
        """Return the relaxation of the bundles in terms of items. Its value is proven: no plan is cheaper."""
        used = np.flatnonzero(found.nodes > 0)
        own = self.number
        worth = np.zeros(self.problem.items)
        worth[self.items] = self.cost(found, kept).min(axis=1, initial=np.inf)
        others = self._others(found)
        pull = self._pull(found, worth[self.items], kept, others).max(initial=1.0)
        flow = np.zeros((int(bundle.max()) + 1, len(found.offers)))
        flow[found.item, found.at] = found.flow
        share = flow[bundle] * (own / np.bincount(bundle, weights=own)[bundle])[:, None]
        item, at = np.nonzero(share[:, used] > 1e-9)
        return Relaxation(
            value=float(worth[self.items] @ own) / float(pull) if np.isfinite(worth).all() else 0.0,
            worth=worth,
            offers=found.offers[used],
            nodes=found.nodes[used],
            item=self.items[item],
            at=at,
            flow=share[:, used][item, at],
            rates=found.rates[used],
        )

    def disagreements(self, found: Relaxation, disaggregate: Relaxation, kept: Marks, slack: float) -> list[Whole]:
        """Return what separates items that should not be in one bundle: the cheapest offer of each, and whether the
        item would be cheaper on an offer with excess."""
        cost = self.cost(found, kept)
        marks: list[Whole] = [cost.argmin(axis=1)]
        others, worth = self._others(found), disaggregate.worth[self.items]
        pull = self._pull(found, worth, kept, others)
        rates, need = self._rates(found)[found.nodes > 0], self._need(found, kept)
        for other in others[np.argsort(-pull, kind="stable")[:WORST]][np.sort(-pull)[:WORST] < -(1 + slack / 2)]:
            free = np.concatenate([self.problem.free[other], self.problem.caps[kept][found.caps]])
            scaled = rates * (self.problem.price[other] / np.maximum(rates @ free, 1e-15))[:, None]
            gains = self.open[other][:, None] & (worth[:, None] > (need @ scaled.T) * (1 + slack / 2))
            marks.append(gains[:, gains.sum(axis=0).argmin()].astype(np.int64))
        return marks

    def _others(self, found: Relaxation) -> Whole:
        usable = np.logical_or.reduce(self.open, axis=1)
        usable[found.offers[found.nodes > 0]] = False
        return np.flatnonzero(usable)

    def _pull(self, found: Relaxation, worth: Floats, kept: Marks, others: Whole) -> Floats:
        limits = np.tile(self.problem.caps[kept][found.caps], (len(others), 1))
        free = np.concatenate([self.problem.free[others], limits], axis=1)
        used = found.nodes > 0
        return worth_to_price_ratio(
            free,
            self.problem.price[others],
            self._ways,
            self._way[others],
            need=self._need(found, kept),
            worth=worth,
            rates=self._rates(found)[used],
        )

    def _need(self, found: Relaxation, kept: Marks) -> Floats:
        """Return what a pod of each item needs: resources, and places under the caps in the program."""
        under = self.capped[kept][found.caps].T
        return np.concatenate([self.need, under], axis=1)

    @staticmethod
    def _rates(found: Relaxation) -> Floats:
        return np.concatenate([found.rates, found.places], axis=1)


def number_rows(marks: Sequence[NDArray[Any]]) -> Whole:
    """Return equal numbers for equal marks, different numbers otherwise. ``marks`` have one entry for each item, or
    rows of them."""
    rows = [np.ascontiguousarray(mark.reshape(len(mark), -1)).view(np.uint8).reshape(len(mark), -1) for mark in marks]
    whole = np.ascontiguousarray(np.concatenate(rows, axis=1))
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known)) for row in whole], dtype=np.int64)
