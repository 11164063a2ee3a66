"""The bound: the lowest price of a plan if pods and nodes were divisible, and what a pod of each item is then worth.

A linear program (solved by HiGHS): nodes of each offer, pods of each item on them, no resource and no cap exceeded.
Every plan is one of its solutions, so no plan is cheaper than its value. Offers are added when they are needed. An
offer stays out if the price of its capacity, by the dual prices of an offer in the program, pays for every pod that
it could hold; leaving it out loses nothing.

The program is kept. When a part of the demand has been packed, or only small offers are allowed, it is solved from
its previous solution.
"""

from collections.abc import Callable
from typing import Any, Final

import highspy
import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole, distinct_rows
from joiner.planning.relaxation.cuts import countable_resources, dual_feasible_shares
from joiner.planning.relaxation.lp_solver import INFINITE, quiet_solver, run_solver
from joiner.planning.relaxation.lp_values import NO_OFFERS, LimitRows, Relaxation, SpareCapacity
from joiner.planning.relaxation.offer_cover import cover_classes
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.relaxation.worth_scaling import worth_to_price_ratio

MOST_ROUNDS: Final = 40
TAKEN_A_ROUND: Final = 4
"""Few: each offer adds a flow for every class, and the next prices often show that others are not needed."""
SLACK: Final = 1e-7
LARGE_SLACK: Final = 2e-4
"""In large programs, offers that could save no more than this stay out; the bound is lower by this share."""
LARGE: Final = 100
TIGHT: Final = 0.8
"""A cap gets a row if the number of items under it exceeds this share of the nodes' caps."""
OVERRUN: Final = 100.0
"""Exceeding a limit by all of it costs this many times the price of the most expensive node."""
BROKEN: Final = 1e-7
"""An inequality that is violated by a smaller share of a node adds no information."""


class ResourceLp:
    """The relaxation of one problem, for any demand.

    With ``firm_only``, only caps that hold in every plan count: for bounds. With ``limit_rows``, limits count: they
    may be exceeded at a prohibitive price, so that a solution always exists. Items with no difference in the program
    are one *class* in it. ``offers`` are in it from the beginning. ``make_solver`` returns an empty solver.
    """

    def __init__(
        self,
        problem: PackingProblem,
        *,
        spare: SpareCapacity | None = None,
        firm_only: bool = False,
        offers: Whole = NO_OFFERS,
        limit_rows: LimitRows | None = None,
        make_solver: Callable[[], Any] = quiet_solver,
    ) -> None:
        self._problem = problem
        self._limit_rows = limit_rows
        self._make_solver = make_solver
        self._spare = spare
        self._resources = np.flatnonzero(problem.need.any(axis=0))
        self._scale = np.maximum(problem.free[:, self._resources].max(axis=0, initial=1.0), 1.0)
        self._candidates = problem.firm if firm_only else np.ones(len(problem.caps), bool)
        self._caps = np.zeros(0, np.int64)
        self._counting = countable_resources(problem.need, problem.free).tolist()
        self._begin(offers)

    def _begin(self, offers: Whole) -> None:
        """Create an empty program over the classes that its caps distinguish, then add these offers."""
        sample = self._classify_items()
        self._offers, self._columns = np.zeros(0, np.int64), np.zeros(0, np.int64)  # Columns of nodes, by offer.
        self._rows = np.zeros((0, self._amounts.shape[1]), np.int64)
        self._item, self._at, self._flows = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._width, self._height = 0, len(sample)
        self._shares: dict[tuple[int, int], Floats] = {}
        self._counted: list[tuple[int, int, int]] = []
        """Rows of whole pods: the offer's position, the resource, the row."""
        self._solver = self._make_solver()
        self._solver.passModel(_empty_program(len(sample)))
        self._limit_row_numbers = np.zeros(0, np.int64)
        if self._limit_rows is not None:
            self._add_limit_rows(self._limit_rows)
        if self._spare is not None and len(self._spare.free):
            self._add_spare(self._spare, sample)
        self._add(offers)

    def _classify_items(self) -> Whole:
        """Number the classes: items with equal needs, offers and caps are one class. Return one item of each class."""
        problem = self._problem
        known: dict[tuple[bytes, bytes, bytes], int] = {}
        under = np.ascontiguousarray(problem.capped[self._caps].T)
        open_to = np.ascontiguousarray(problem.open.T)
        self._class = np.array(
            [
                known.setdefault(
                    (problem.need[item].tobytes(), open_to[item].tobytes(), under[item].tobytes()), len(known)
                )
                for item in range(problem.items)
            ],
            dtype=np.int64,
        )
        _, sample = np.unique(self._class, return_index=True)
        self._need, self._open, self._under = problem.need[sample], problem.open[:, sample], under[sample].astype(float)
        # Few rows differ: most offers of a pool, or of the nodes of a tenant, are open to the same classes.
        self._ways, self._way = distinct_rows(self._open)
        self._limits = problem.caps[self._caps].astype(float)
        amounts = self._need[:, self._resources] / self._scale
        # Pods are counted by their size, so that all numbers in the program have the same order of magnitude.
        self._size = np.maximum(amounts.max(axis=1, initial=0.0), 1e-12)
        self._amounts = np.concatenate([amounts, self._under], axis=1) / self._size[:, None]
        return sample

    def _add_spare(self, spare: SpareCapacity, sample: Whole) -> None:
        """Add existing capacity as nodes without cost."""
        free = spare.free[:, self._resources] / self._scale
        rows = self._add_nodes(
            np.concatenate([free, np.full((len(free), len(self._caps)), 1e9)], axis=1),
            np.zeros(len(free)),
            fixed=True,
        )
        at, item = np.nonzero(spare.open[:, sample])
        self._add_flows(rows[at], item)

    def _add_limit_rows(self, limit_rows: LimitRows) -> None:
        """Add a row for each limit, and a column that exceeds it."""
        number, none = len(limit_rows.left), np.zeros(0, np.int32)
        self._limit_row_numbers = self._height + np.arange(number)
        self._solver.addRows(
            number, np.full(number, -INFINITE), limit_rows.left / limit_rows.unit, 0, none, none, np.zeros(0)
        )
        excess_price = OVERRUN * float(self._problem.price.max(initial=0.0)) * np.ones(number)
        every = np.arange(number, dtype=np.int32)
        self._solver.addCols(
            number,
            excess_price,
            np.zeros(number),
            np.full(number, INFINITE),
            number,
            every,
            self._limit_row_numbers.astype(np.int32),
            -np.ones(number),
        )
        self._height += number
        self._width += number

    @property
    def classes(self) -> int:
        """Return the number of classes (rows)."""
        return len(self._need)

    def solve(self, demand: Whole, among: Marks | None = None, *, whole: bool = False) -> Relaxation:
        """Return the optimum for this demand with offers ``among`` these (by default all).

        Every item in the demand must have an offer among them. With ``whole``, cuts for whole pods are added
        (``cuts``), so that the bound is higher.
        """
        problem = self._problem
        allowed = np.ones(len(problem.price), bool) if among is None else among
        members = problem.capped @ demand / np.maximum(problem.caps, 1) if len(problem.caps) else np.zeros(0)
        total = self._demand(demand, allowed)
        for turn in range(MOST_ROUNDS + 1):
            values, duals = self._run(allowed)
            nodes = np.where(allowed[self._offers], values[self._columns], 0.0)
            tight = self._candidates & (members > TIGHT * nodes.sum())
            tight[self._caps] = False
            if (
                tight.any() and turn < MOST_ROUNDS
            ):  # The tightest first: they may add so many nodes that the others do not bind.
                tight &= members >= members[tight].max() / 2
                self._caps = np.concatenate([self._caps, np.flatnonzero(tight)])
                self._begin(self._offers)
                total = self._demand(demand, allowed)
                continue
            active = np.flatnonzero(total > 0)
            worth, rates = np.maximum(duals[: len(total)], 0) * self._size, self._rates(duals, allowed)
            limit_prices, paid = self._price_limits(duals)
            usable = np.flatnonzero(self._open_to_some(active) & allowed)
            missing = np.setdiff1d(usable, self._offers, assume_unique=True)
            pull = self._attraction(active, missing, worth, rates, price=(problem.price + limit_prices)[missing])
            better = np.flatnonzero(pull > 1 + (SLACK if len(active) <= LARGE else LARGE_SLACK))
            if not len(better):
                if whole and turn < MOST_ROUNDS - 1 and self._cut(values, nodes):
                    continue
                break
            if turn == MOST_ROUNDS:
                break
            best = better[np.argsort(-pull[better], kind="stable")]
            self._add(missing[best if turn == MOST_ROUNDS - 1 else best[:TAKEN_A_ROUND]])
        value = (float(self._solver.getInfo().objective_function_value) + paid) / max(pull.max(initial=1.0), 1.0) - paid
        return self._read(value, demand, allowed, total=total, values=values, worth=worth, rates=rates)

    def _demand(self, demand: Whole, allowed: Marks) -> Floats:
        """Set the demand of each class in the program, and ensure that every class has an offer."""
        total: Floats = np.bincount(self._class, weights=demand, minlength=len(self._need)).astype(float)
        active = np.flatnonzero(total > 0)
        here = self._offers[allowed[self._offers]]
        if not self._open[np.ix_(here, active)].any(axis=0).all():
            usable = np.flatnonzero(self._open_to_some(active) & allowed)
            self._add(
                np.setdiff1d(
                    cover_classes(self._problem, self._need, self._open, usable=usable, active=active), self._offers
                )
            )
        every = np.arange(len(total), dtype=np.int32)
        self._solver.changeRowsBounds(len(total), every, total * self._size, np.full(len(total), INFINITE))
        return total

    def _open_to_some(self, active: Whole) -> Marks:
        """Return which offers are open to one of these classes."""
        ways: Marks = np.logical_or.reduce(self._ways[:, active], axis=1)
        return ways[self._way]

    def _add(self, offers: Whole) -> None:
        """Add offers, with flows of all classes that may use them."""
        if not len(offers):
            return
        problem = self._problem
        free = problem.free[np.ix_(offers, self._resources)] / self._scale
        first, known = self._width, len(self._offers)
        held = np.concatenate([free, np.tile(self._limits, (len(offers), 1))], axis=1)
        taken = (
            None if self._limit_rows is None else (self._limit_rows.each[:, offers] / self._limit_rows.unit[:, None]).T
        )
        rows = self._add_nodes(held, problem.price[offers], fixed=False, taken=taken)
        self._columns = np.concatenate([self._columns, np.arange(first, first + len(offers))])
        self._offers = np.concatenate([self._offers, offers])
        self._rows = np.concatenate([self._rows, rows])
        at, item = np.nonzero(self._open[offers])
        self._add_flows(rows[at], item, known + at)

    def _add_nodes(self, free: Floats, price: Floats, *, fixed: bool, taken: Floats | None = None) -> Whole:
        """Add columns and rows for nodes: number, capacity, and what they use of limits. Return the rows."""
        number, width = free.shape
        rows = self._height + np.arange(number * width).reshape(number, width)
        none = np.zeros(0, np.int32)
        index, entries = (
            (rows, -free) if taken is None else (self._with_limit_rows(rows), np.concatenate([taken, -free], axis=1))
        )
        self._solver.addRows(
            number * width, np.full(number * width, -INFINITE), np.zeros(number * width), 0, none, none, np.zeros(0)
        )
        self._solver.addCols(
            number,
            price,
            np.full(number, 1.0 if fixed else 0.0),
            np.full(number, 1.0 if fixed else INFINITE),
            index.size,
            (np.arange(number) * index.shape[1]).astype(np.int32),
            index.ravel().astype(np.int32),
            entries.ravel(),
        )
        self._width += number
        self._height += number * width
        return rows

    def _with_limit_rows(self, rows: Whole) -> Whole:
        return np.concatenate([np.tile(self._limit_row_numbers, (len(rows), 1)), rows], axis=1)

    def _add_flows(self, rows: Whole, item: Whole, at: Whole | None = None) -> None:
        """Add flows of classes to nodes with these rows; ``at`` are their positions among the offers, None for
        existing capacity."""
        number = len(item)
        entries = np.concatenate([np.ones((number, 1)), self._amounts[item]], axis=1)
        index = np.concatenate([item[:, None], rows], axis=1)
        kept = entries != 0
        count = kept.sum(axis=1)
        self._solver.addCols(
            number,
            np.zeros(number),
            np.zeros(number),
            np.full(number, INFINITE),
            int(count.sum()),
            (np.cumsum(count) - count).astype(np.int32),
            index[kept].astype(np.int32),
            entries[kept],
        )
        if at is not None:
            self._item, self._at = np.concatenate([self._item, item]), np.concatenate([self._at, at])
            self._flows = np.concatenate([self._flows, self._width + np.arange(number)])
        self._width += number

    def _flow(self, values: Floats) -> Floats:
        """Return the pods of each class on each offer in the program."""
        flow = np.zeros((len(self._need), len(self._offers)))
        flow[self._item, self._at] = values[self._flows] / self._size[self._item]
        return flow

    def _cut(self, values: Floats, nodes: Floats) -> int:
        """Add the cuts for whole pods that these flows violate; return their number."""
        problem, added, flow = self._problem, 0, self._flow(values)
        for at in np.flatnonzero(nodes > BROKEN).tolist():
            here = np.flatnonzero(self._at == at)
            mine = self._item[here]
            for resource in self._counting:
                if (at, resource) not in self._shares:
                    self._shares[at, resource] = dual_feasible_shares(
                        self._need[mine, resource], problem.free[self._offers[at], resource]
                    )
                known = self._shares[at, resource]
                broken = known @ flow[mine, at] > nodes[at] * (1 + BROKEN) + 1e-9
                for row in np.flatnonzero(broken).tolist():
                    used = np.flatnonzero(known[row])
                    index = np.concatenate([[self._columns[at]], self._flows[here[used]]]).astype(np.int32)
                    entries = np.concatenate([[-1.0], known[row, used] / self._size[mine[used]]])
                    self._solver.addRow(-INFINITE, 0.0, len(index), index, entries)
                    self._counted.append((at, resource, self._height))
                    self._height += 1
                    added += 1
        return added

    def _run(self, allowed: Marks) -> tuple[Floats, Floats]:
        number = len(self._columns)
        upper = np.where(allowed[self._offers], INFINITE, 0.0)
        self._solver.changeColsBounds(number, self._columns.astype(np.int32), np.zeros(number), upper)
        run_solver(self._solver)
        solution = self._solver.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)

    def _rates(self, duals: Floats, allowed: Marks) -> Floats:
        """Return the price of a unit of each resource, and of a place under each cap, on each offer in the program."""
        rates = np.zeros((len(self._offers), self._need.shape[1] + len(self._caps)))
        prices = np.maximum(-duals[self._rows], 0)
        rates[:, self._resources] = prices[:, : len(self._resources)] / self._scale
        rates[:, self._need.shape[1] :] = prices[:, len(self._resources) :]
        for at, resource, row in self._counted:  # What counts against the node as a whole is paid for by its capacity.
            rates[at, resource] += max(-duals[row], 0.0) / self._problem.free[self._offers[at], resource]
        return np.where(allowed[self._offers][:, None], rates, 0.0)

    def _price_limits(self, duals: Floats) -> tuple[Floats, float]:
        """Return what limits add to the price of a node of each offer, and the total price of what is left of them."""
        if self._limit_rows is None:
            return np.zeros(len(self._problem.price)), 0.0
        each = np.maximum(-duals[self._limit_row_numbers], 0) / self._limit_rows.unit
        return each @ self._limit_rows.each, float(each @ self._limit_rows.left)

    def _attraction(self, active: Whole, missing: Whole, worth: Floats, rates: Floats, *, price: Floats) -> Floats:
        """Return for each offer outside the program by how much the worth of its pods exceeds its price, at the best
        of the known prices."""
        items = active[worth[active] > 1e-12]
        free = np.concatenate([self._problem.free[missing], np.tile(self._limits, (len(missing), 1))], axis=1)
        need = np.concatenate([self._need, self._under], axis=1)[items]
        return worth_to_price_ratio(
            free, price, self._ways[:, items], self._way[missing], need=need, worth=worth[items], rates=rates
        )

    def _read(
        self,
        value: float,
        demand: Whole,
        allowed: Marks,
        *,
        total: Floats,
        values: Floats,
        worth: Floats,
        rates: Floats,
    ) -> Relaxation:
        """Return the solution in terms of items: the flow of a class is divided evenly among its pods."""
        here = allowed[self._offers]
        flow = self._flow(values)
        flow[:, ~here] = 0.0
        share = flow[self._class] * (demand / np.maximum(total[self._class], 1.0))[:, None]
        item, at = np.nonzero(share > 1e-9)
        return Relaxation(
            value=value,
            worth=worth[self._class],
            offers=self._offers,
            nodes=np.where(here, np.maximum(values[self._columns], 0.0), 0.0),
            item=item,
            at=at,
            flow=share[item, at],
            rates=rates[:, : self._need.shape[1]],
            firm=bool(self._problem.firm[self._caps].all()),
            caps=self._caps,
            places=rates[:, self._need.shape[1] :],
        )


def _empty_program(classes: int) -> highspy.HighsLp:
    """Return a program with a row for the demand of each class, and no column."""
    empty = highspy.HighsLp()
    empty.num_col_, empty.num_row_ = 0, classes
    empty.row_lower_, empty.row_upper_ = np.zeros(classes), np.full(classes, INFINITE)
    empty.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    empty.a_matrix_.start_ = [0]
    return empty
