"""Column generation: the linear program over whole nodes, which has no fractions of pods on a node.

A *column* is one node with its pods. The master problem mixes the known columns. Its dual prices show which new
columns would help, the kernel packs such nodes, and the mix is rounded to whole nodes. For large pods this finds
what rounding alone cannot: which sizes fit together.
"""

from typing import Final

import highspy
import numpy as np

from joiner.planning.arrays import Floats, Whole
from joiner.planning.packing.column_pricing import MOST_PATIENCE, PATIENCE, ColumnPricer
from joiner.planning.packing.node_filling import (
    NO_PACKING,
    FillSettings,
    NodePattern,
    Packing,
    filling_steps,
    right_size,
)
from joiner.planning.packing.randomized_rounding import pack_greedily, round_relaxation
from joiner.planning.packing.search_context import SearchContext, floor_worth, solve_relaxation
from joiner.planning.relaxation.lp_solver import quiet_solver, run_solver
from joiner.planning.relaxation.lp_values import Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem

MOST_ADDED: Final = 60
HOT: Final = 24
"""The number of offers with the best columns that are filled again with random prices."""
SMOOTHING: Final = 0.6
"""The share of the relaxation's prices that is mixed into the master's prices while new columns are found."""
MOST_CELLS: Final = 40_000
"""The maximum number of cells (rows times items) in one fill with random prices."""
STALLS: Final = 8
SETTLING: Final = 0.5
"""The share of the best proven prices that is mixed into the master's prices: these vary strongly while columns are
missing."""
SLOWER: Final = 4
"""The factor by which the step limit grows if nothing is found."""
CLOSE: Final = 1e-3
"""A gap to the bound that is small enough."""
GROWING: Final = 0.65
"""The share of the column time that is used to find columns; the rest is for rounding their mix."""
SURELY_GROWING: Final = 0.8
"""The same share if the best nodes can be found exactly, because these nodes are the missing columns."""
TURNS: Final = 60
"""The number of roundings that shows how good a mix is."""
USUAL_NOISE: Final = (0.02, 0.05, 0.1)
STALLED_NOISE: Final = (0.05, 0.1, 0.2, 0.4)
"""The random change of prices: larger after each attempt without a new column."""


class MasterProblem:
    """The linear program over columns: at least the demand of every item, at the lowest price."""

    def __init__(self, problem: PackingProblem, demand: Whole) -> None:
        self._problem = problem
        self.patterns: list[NodePattern] = []
        self._seen: set[tuple[int, bytes, bytes]] = set()
        self._pending: list[NodePattern] = []
        self._solver = quiet_solver()
        empty = highspy.HighsLp()
        empty.num_col_, empty.num_row_ = 0, problem.items
        empty.row_lower_, empty.row_upper_ = demand.astype(float), np.full(problem.items, highspy.kHighsInf)
        empty.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        empty.a_matrix_.start_ = [0]
        self._solver.passModel(empty)

    def add(self, pattern: NodePattern) -> bool:
        """Add a column; return whether it is new."""
        known = (pattern.offer, pattern.items.tobytes(), pattern.counts.tobytes())
        if known in self._seen:
            return False
        self._seen.add(known)
        self._pending.append(pattern)
        return True

    @property
    def steps(self) -> float:
        """Return the cost of solving the program, in steps of the meter."""
        return 0.3 + 0.003 * self._problem.items + 0.0005 * len(self.patterns)

    def solve(self) -> tuple[float, Floats, Floats]:
        """Return the price, the worth of each item, and the number of nodes of each column."""
        if self._pending:
            lengths = [len(one.items) for one in self._pending]
            self._solver.addCols(
                len(lengths),
                self._problem.price[[one.offer for one in self._pending]],
                np.zeros(len(lengths)),
                np.full(len(lengths), highspy.kHighsInf),
                sum(lengths),
                (np.cumsum(lengths) - lengths).astype(np.int32),
                np.concatenate([one.items for one in self._pending]).astype(np.int32),
                np.concatenate([one.counts for one in self._pending]).astype(float),
            )
            self.patterns += self._pending
            self._pending = []
        run_solver(self._solver)
        solution = self._solver.getSolution()
        value = float(self._solver.getInfo().objective_function_value)
        return value, np.maximum(np.array(solution.row_dual), 0), np.array(solution.col_value)


def generate_columns(
    problem: PackingProblem,
    demand: Whole,
    relaxation: Relaxation,
    packing: Packing,
    context: SearchContext,
    *,
    share: float,
    good_enough: float,
) -> Packing:
    """Return a packing that is at most as expensive as ``packing``, whose nodes are the first columns. The search
    stops when this share of the effort is used up."""
    master = MasterProblem(problem, demand)
    for pattern in packing.patterns:
        master.add(pattern)
    pricer = ColumnPricer.of(context.filler, demand, relaxation)
    if pricer is None:
        until = _share_for_columns(context, share, GROWING)
        worth, mix = _grow(
            problem, demand, relaxation, master, context, share=until, good_enough=good_enough, stalls=STALLS
        )
        return _rounded_until(
            problem, demand, master, context, packing, mix=mix, worth=worth, share=share, good_enough=good_enough
        )
    until = _share_for_columns(context, share, SURELY_GROWING)
    _grow(problem, demand, relaxation, master, context, share=until, good_enough=good_enough, stalls=0)
    settling, best = ExactColumnGeneration(demand, relaxation, master, pricer, context), packing
    while not settling.ended and best.price > good_enough and not context.meter.spent(share):
        value, worth, mix = settling.go_on(share=_share_for_columns(context, share, SURELY_GROWING))
        good_enough = max(good_enough, context.proven_for(demand) * (1 + CLOSE))
        enough = max(good_enough, value * (1 + CLOSE))  # Without better columns, rounding finds nothing better.
        best = _rounded_until(
            problem, demand, master, context, best, mix=mix, worth=worth, share=share, good_enough=enough
        )
    return best


def _share_for_columns(context: SearchContext, share: float, part: float) -> float:
    """Return the share of the effort at which the search for columns ends, if it uses ``part`` of the remaining
    effort."""
    used = min(context.meter.share, share)
    return used + part * (share - used)


def _grow(
    problem: PackingProblem,
    demand: Whole,
    relaxation: Relaxation,
    master: MasterProblem,
    context: SearchContext,
    *,
    share: float,
    good_enough: float,
    stalls: int,
) -> tuple[Floats, Floats]:
    """Solve the master problem and add columns in turn, until no new column was found more than ``stalls`` times;
    return the worth of items and the mix."""
    stalled, turn = 0, 0
    hot = np.zeros(0, np.int64)
    while True:
        value, worth, mix = master.solve()
        turn += 1
        context.meter.spend(master.steps)
        if value <= good_enough or stalled > stalls or context.meter.spent(share):
            return worth, mix
        smooth = SMOOTHING if not stalled else 0.0
        prices = floor_worth(problem, smooth * relaxation.worth + (1 - smooth) * worth)
        everything = turn % 3 == 1
        added, hot = _price(
            problem,
            demand,
            master,
            context,
            prices=prices,
            worth=worth,
            hot=hot,
            stalled=stalled,
            everything=everything,
        )
        stalled = 0 if added else stalled + 1


class ExactColumnGeneration:
    """Solves the master problem and adds the best possible nodes in turn, until master and bound meet: then the mix is
    proven optimal. ``ended`` is set then, or when no further column is found."""

    def __init__(
        self, demand: Whole, relaxation: Relaxation, master: MasterProblem, pricer: ColumnPricer, context: SearchContext
    ) -> None:
        self._demand, self._master, self._pricer, self._context = demand, master, pricer, context
        self._best_prices, self._hoped, self._proven = relaxation.worth, 0.0, 0.0
        self._patience, self._idle = PATIENCE, 0
        self.ended = False

    def go_on(self, *, share: float) -> tuple[float, Floats, Floats]:
        """Continue until the search has ended or this share of the effort is used up; return the result of
        ``MasterProblem.solve``."""
        meter = self._context.meter
        while True:
            value, worth, mix = self._master.solve()
            meter.spend(self._master.steps)
            self.ended = value <= self._proven * (1 + CLOSE) or self._idle > 1
            if self.ended or meter.spent(share):
                return value, worth, mix
            self._look(worth if self._idle else SETTLING * self._best_prices + (1 - SETTLING) * worth)

    def _look(self, prices: Floats) -> None:
        priced = self._pricer.price(prices, self._patience)
        self._context.meter.spend(priced.spent)
        whole = float(self._demand @ prices)
        if whole / priced.likely > self._hoped:
            self._best_prices, self._hoped = prices, whole / priced.likely
        if whole / priced.most > self._proven:
            self._proven = whole / priced.most
            self._context.prove(self._demand, self._proven)
        if sum(self._master.add(one) for one in priced.patterns):
            self._idle = 0
        elif self._patience < MOST_PATIENCE:
            self._patience *= SLOWER
            self._hoped = 0.0  # With a lower step limit, the expected value was not reliable.
        else:
            self._idle += 1


def _price(
    problem: PackingProblem,
    demand: Whole,
    master: MasterProblem,
    context: SearchContext,
    *,
    prices: Floats,
    worth: Floats,
    hot: Whole,
    stalled: int,
    everything: bool,
) -> tuple[int, Whole]:
    """Pack nodes by these prices and add those that are worth more than they cost; return their number, and the best
    offers."""
    active = np.flatnonzero(demand > 0)
    offers = np.flatnonzero(problem.open[:, active].any(axis=1))
    rounds: list[tuple[Whole, FillSettings]] = []
    if everything or stalled or not len(hot):
        weights = np.exp(0.5 * context.rng.standard_normal((len(offers), problem.need.shape[1])))
        rounds += [(offers, FillSettings(1.0)), (offers, FillSettings(0.5, weights=weights))]
    if len(hot):
        times = min(12 * (1 + stalled) if stalled else 4, max(MOST_CELLS // (len(hot) * len(active)), 2))
        rows = np.repeat(hot, times)
        strength = context.rng.choice(np.array(STALLED_NOISE if stalled else USUAL_NOISE), (len(rows), 1))
        noise = np.exp(strength * context.rng.standard_normal((len(rows), len(active))))
        weights = np.exp(0.6 * context.rng.standard_normal((len(rows), problem.need.shape[1])))
        rounds.append((rows, FillSettings(context.rng.choice(np.array([1.0, 0.5, 0.34]), len(rows)), noise, weights)))
    added, best = 0, np.full(len(problem.price), -1.0)
    for rows, way in rounds:
        counts = context.filler.fill(rows, active, demand[active], prices[active], way=way)
        context.meter.spend(
            filling_steps(counts.size * (1 if way.noise is None else 2))
        )  # A fill with random prices costs as much as a fill without.
        ratio = (counts @ worth[active]) / problem.price[rows]
        np.maximum.at(best, rows, ratio)
        for row in np.argsort(-ratio, kind="stable")[:MOST_ADDED].tolist():
            if ratio[row] <= 1 + 1e-6:
                break
            inside = np.flatnonzero(counts[row])
            added += master.add(NodePattern(int(rows[row]), active[inside], counts[row, inside], 1))
    return added, np.argsort(-best, kind="stable")[:HOT]


def _rounded_until(
    problem: PackingProblem,
    demand: Whole,
    master: MasterProblem,
    context: SearchContext,
    packing: Packing,
    *,
    mix: Floats,
    worth: Floats,
    share: float,
    good_enough: float,
) -> Packing:
    """Return the best of many roundings, at most as expensive as ``packing``, until it is good enough or this share of
    the effort is used up."""
    best, turn = packing, 0
    while best.price > good_enough and not context.meter.spent(share) and turn < TURNS:
        made = _rounded(problem, demand, master, context, mix=mix, worth=worth, turn=turn, under=best.price)
        best = made if made.price < best.price - 1e-9 else best
        turn += 1
    return best


def _rounded(
    problem: PackingProblem,
    demand: Whole,
    master: MasterProblem,
    context: SearchContext,
    *,
    mix: Floats,
    worth: Floats,
    turn: int,
    under: float,
) -> Packing:
    """Round the mix to whole nodes at random; the remaining pods are packed greedily, or by rounding a relaxation of
    their own."""
    mode = (1.0, 0.6, 0.3, 1.0)[turn % 4]
    left, patterns, price = demand.copy(), [], 0.0
    for column in np.argsort(-mix, kind="stable").tolist():
        if mix[column] <= 1e-9:
            break
        one = master.patterns[column]
        times = min(
            int(np.floor(mix[column] + context.rng.random() * mode)), int((left[one.items] // one.counts).min())
        )
        if times > 0:
            left[one.items] -= times * one.counts
            patterns.append(NodePattern(one.offer, one.items, one.counts, times))
            price += times * float(problem.price[one.offer])
    context.meter.spend(0.5)
    if not left.any():
        return right_size(problem, patterns)
    if turn % 4 == 3:
        rest = round_relaxation(problem, solve_relaxation(problem, left, context), left, context)
    else:
        noise, weight_noise = (0.0, 0.1, 0.2)[turn // 3 % 3], (0.0, 0.4)[turn % 2]
        rest = pack_greedily(
            problem,
            left,
            floor_worth(problem, worth),
            context,
            share=(1.0, 0.5)[turn % 2],
            noise=noise,
            weight_noise=weight_noise,
            many=0.003,
            under=under * 1.02 - price,
        )
    return right_size(problem, [*patterns, *rest.patterns]) if rest.patterns else NO_PACKING
