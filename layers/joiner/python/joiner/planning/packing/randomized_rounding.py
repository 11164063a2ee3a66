"""From a fractional to a whole packing: randomized proportional rounding, and a greedy end.

The relaxation gives the average mix of pods on each offer. Rows start with that mix, rounded at random, and are
filled; the best rows become nodes. The remaining pods keep the mix of the relaxation, so they do not end as one
kind only, and the program is solved again as they become fewer. The end is too small for averages: it is packed
greedily onto smaller nodes, in a few variants.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing.node_filling import (
    NO_PACKING,
    FillSettings,
    NodePattern,
    Packing,
    filling_steps,
    offers_up_to_price,
    right_size,
)
from joiner.planning.packing.sampling import sample_contents, scarcity_factors
from joiner.planning.packing.search_context import SearchContext, floor_worth, solve_relaxation
from joiner.planning.relaxation.lp_values import Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.tuning import FEW_ITEMS

ROWS: Final = 24
"""The number of rows that are filled at a time: enough to contain good ones."""
OFTEN: Final = 0.5
SELDOM: Final = 0.75
"""The program is solved again whenever this share of the worth has been placed; the share is larger for a large
program or little time."""
SMALLER: Final = 6.0
"""The end is packed onto nodes that cost at most the worth of the end divided by this."""
DEPTH: Final = 4
SHORTLIST: Final = 48
"""The number of offers considered for each node of the end, if the items are many."""
WORTH_A_LIST: Final = 6000
FAVOURED_FOR: Final = 8
"""The number of nodes that are chosen among the best offers before all offers are considered again."""


@dataclass(frozen=True, slots=True)
class RoundingPace:
    """How rows become nodes.

    ``seeded`` is the share of the average mix in a row before it is filled. Rows become nodes if their worth for
    their price is within ``within`` of the best one; each is used for one in ``repeated`` of the remaining nodes of
    its offer, because more would change the mix of the remaining pods. ``little_left`` is the share of the worth
    below which the program is no longer used.
    """

    seeded: float
    within: float
    repeated: int
    little_left: float


CAREFUL: Final = RoundingPace(0.95, within=0.001, repeated=ROWS, little_left=0.0)
HASTY: Final = RoundingPace(0.9, within=0.01, repeated=8, little_left=0.03)
"""For a plan without a search for a better one."""


def round_relaxation(
    problem: PackingProblem,
    relaxation: Relaxation,
    demand: Whole,
    context: SearchContext,
    *,
    fewest: float = 1.5,
    depth: int = 0,
    tries: int = 2,
    among: Marks | None = None,
) -> Packing:
    """Pack all of this demand on whole nodes. The program is solved again repeatedly."""
    pace = CAREFUL if context.meter.allowance else HASTY
    again = OFTEN if problem.items <= FEW_ITEMS and context.meter.allowance else SELDOM
    left, found, patterns = demand.copy(), relaxation, []
    little = pace.little_left * float(relaxation.worth @ demand)
    while left.any():
        made = _bulk(problem, found, left, context, pace=pace, again=again, fewest=fewest)
        patterns += made
        if not made or float(relaxation.worth @ left) <= little:
            break
        found = solve_relaxation(problem, left, context, among=among)
    if left.any():
        patterns += _tail(problem, found, left, context, depth=depth, tries=tries).patterns
    return (
        Packing(sum(one.times * float(problem.price[one.offer]) for one in patterns), tuple(patterns))
        if _complete(demand, patterns)
        else NO_PACKING
    )


def _complete(demand: Whole, patterns: list[NodePattern]) -> bool:
    held = np.zeros(len(demand), np.int64)
    for one in patterns:
        held[one.items] += one.times * one.counts
    return bool((held == demand).all())


def _bulk(
    problem: PackingProblem,
    found: Relaxation,
    left: Whole,
    context: SearchContext,
    *,
    pace: RoundingPace,
    again: float,
    fewest: float,
) -> list[NodePattern]:
    """Return nodes that start with the relaxation's mix, until ``again`` of the worth is placed or no offer has enough
    nodes left; ``left`` is reduced in place."""
    worth = floor_worth(problem, found.worth)
    urgent = worth * scarcity_factors(problem, found.offers, found.nodes)
    flow = np.zeros((problem.items, len(found.offers)))
    flow[found.item, found.at] = found.flow
    average = pace.seeded * (flow / np.maximum(found.nodes, 1e-12)).T * problem.open[found.offers]
    rest, before = found.nodes.copy(), float(worth @ left)
    patterns: list[NodePattern] = []
    while True:
        large = np.flatnonzero(rest >= fewest)
        if not len(large):
            return patterns
        active = np.flatnonzero(left > 0)
        each = np.maximum(
            1, np.minimum(np.round(ROWS * rest[large] / rest[large].sum()), np.floor(rest[large]))
        ).astype(np.int64)
        rows = np.repeat(large, each)
        seed = sample_contents(
            context.filler, context.rng, found.offers[rows], active, mean=average[:, active][rows], demand=left[active]
        )
        counts = context.filler.fill(found.offers[rows], active, left[active], urgent[active], seed=seed)
        context.meter.spend(2 * filling_steps(counts.size))
        made = _commit(
            problem, found, active, rows=rows, counts=counts, worth=worth[active], left=left, rest=rest, pace=pace
        )
        if not made:
            return patterns
        patterns += made
        if float(worth @ left) < (1 - again) * before:
            return patterns


def _commit(
    problem: PackingProblem,
    found: Relaxation,
    active: Whole,
    *,
    rows: Whole,
    counts: Whole,
    worth: Floats,
    left: Whole,
    rest: Floats,
    pace: RoundingPace,
) -> list[NodePattern]:
    ratio = (counts @ worth) / problem.price[found.offers[rows]]
    order = np.argsort(-ratio, kind="stable")
    made: list[NodePattern] = []
    for row in order.tolist():
        if made and ratio[row] < ratio[order[0]] * (1 - pace.within):
            break
        at = rows[row]
        inside = np.flatnonzero(counts[row])
        if rest[at] < 1 or not len(inside):
            continue
        items, amounts = active[inside], counts[row, inside]
        times = int((left[items] // amounts).min())
        if times <= 0:
            continue
        times = max(1, min(times, int(rest[at] // pace.repeated)))
        left[items] -= times * amounts
        rest[at] -= times
        made.append(NodePattern(int(found.offers[at]), items, amounts, times))
    return made


def _tail(
    problem: PackingProblem, found: Relaxation, demand: Whole, context: SearchContext, *, depth: int, tries: int
) -> Packing:
    """Pack the end: on one node, by the same rounding among smaller offers, or greedily. With ``tries`` of 0, the
    greedy runs only if smaller offers do not apply."""
    best = pack_on_one_node(problem, demand)
    worth, rates = floor_worth(problem, found.worth), average_rates(found)
    value = float(worth @ demand)
    if depth < DEPTH:
        among = offers_up_to_price(problem, demand, value / SMALLER)
        if among.any():
            smaller = solve_relaxation(problem, demand, context, among=among)
            if smaller.nodes.sum() >= 3 and (smaller.nodes >= 1.5).any():
                made = round_relaxation(problem, smaller, demand, context, depth=depth + 1, tries=tries, among=among)
                made = right_size(problem, made.patterns) if made.patterns else NO_PACKING
                best = made if made.price < best.price else best
                if not tries and made.patterns:
                    return best
            else:
                worth, rates = floor_worth(problem, smaller.worth), average_rates(smaller)
    limit = max(value * 1.6, float(problem.price.min())) if best.patterns else np.inf
    for number in range(max(tries, 1)):
        noise, weight_noise = (0.0, 0.0) if number == 0 else (0.15, 0.0 if number == 1 else 0.5)
        share = (1.0, 0.5, 0.34)[number % 3]
        made = pack_greedily(
            problem,
            demand,
            worth,
            context,
            share=share,
            noise=noise,
            weight_noise=weight_noise,
            limit=limit,
            under=best.price,
            rates=rates,
        )
        best = made if made.price < best.price else best
    if not best.patterns:
        best = pack_greedily(problem, demand, worth, context, share=0.5, limit=np.inf)
    return best


def average_rates(found: Relaxation) -> Floats:
    """Return the average resource prices of a relaxation."""
    return np.maximum(found.nodes, 1e-6) @ found.rates


def pack_on_one_node(problem: PackingProblem, demand: Whole) -> Packing:
    """Return the cheapest node that holds the whole demand, if one exists."""
    items = np.flatnonzero(demand)
    if problem.clashing(demand[None, :])[0]:
        return NO_PACKING
    able = (problem.free >= demand[items] @ problem.need[items]).all(axis=1) & problem.open[:, items].all(axis=1)
    offers = np.flatnonzero(able)
    if not len(offers) or not len(items):
        return NO_PACKING
    best = int(offers[problem.price[offers].argmin()])
    return Packing(float(problem.price[best]), (NodePattern(best, items, demand[items].copy(), 1),))


def pack_greedily(
    problem: PackingProblem,
    demand: Whole,
    worth: Floats,
    context: SearchContext,
    *,
    share: float = 0.5,
    noise: float = 0.0,
    weight_noise: float = 0.0,
    limit: float = np.inf,
    under: float = np.inf,
    many: float = 0.0,
    rates: Floats | None = None,
) -> Packing:
    """Pack node after node, each the best one for its price of all offers up to ``limit``; stop once the price exceeds
    ``under``.

    With ``many``, rows within that share of the best become nodes in the same iteration. With ``rates``, only
    offers with the lowest price for their capacity by these rates are considered, and offers that some item needs.
    """
    left, patterns, price = demand.copy(), [], 0.0
    everything = np.flatnonzero((problem.price <= limit) & problem.open[:, demand > 0].any(axis=1))
    favourites, standard, rounds = everything[:0], 0.0, 0
    while left.any():
        if price >= under or not len(everything):
            return NO_PACKING
        active = np.flatnonzero(left > 0)
        anew = not len(favourites) or rounds > FAVOURED_FOR
        offers = _shortlist(problem, left, everything, rates, float(worth @ left)) if anew else favourites
        changes = context.vary(len(offers), len(active), problem.need.shape[1], noise=noise, weight_noise=weight_noise)
        counts = context.filler.fill(offers, active, left[active], worth[active], way=FillSettings(share, *changes))
        context.meter.spend(filling_steps(counts.size))
        ratio = (counts @ worth[active]) / problem.price[offers]
        order = np.argsort(-ratio, kind="stable")
        if ratio[order[0]] <= 0:
            if anew:
                return NO_PACKING
            favourites = everything[:0]
            continue
        rounds += 1
        if anew:
            standard, rounds = ratio[order[0]], 0
            favourites = offers[order[:ROWS]] if len(offers) > 40 else everything[:0]
        elif ratio[order[0]] < standard * 0.985:
            favourites = everything[:0]
            continue
        best = [row for row in order[: 20 if many else 1].tolist() if ratio[row] >= ratio[order[0]] * (1 - many)]
        for pattern in _take_rows(left, best, offers, active, counts):
            patterns.append(pattern)
            price += pattern.times * float(problem.price[pattern.offer])
    return right_size(problem, patterns)


def _take_rows(left: Whole, rows: list[int], offers: Whole, active: Whole, counts: Whole) -> Iterator[NodePattern]:
    """Yield a pattern for each of these rows that the remaining pods still fill; ``left`` is reduced by its pods."""
    for row in rows:
        inside = np.flatnonzero(counts[row])
        if pattern := _take_pattern(left, int(offers[row]), active[inside], counts[row, inside]):
            yield pattern


def _take_pattern(left: Whole, offer: int, items: Whole, counts: Whole) -> NodePattern | None:
    """Subtract as many nodes with these counts from ``left`` as possible; return them, or None."""
    times = int((left[items] // counts).min())
    if times <= 0:
        return None
    left[items] -= times * counts
    return NodePattern(offer, items, counts, times)


def _shortlist(problem: PackingProblem, demand: Whole, offers: Whole, rates: Floats | None, value: float) -> Whole:
    """Return, for many offers, those with the lowest price for their usable capacity, and further ones until every
    item has an offer."""
    items = np.flatnonzero(demand)
    if rates is None or len(offers) * len(items) <= WORTH_A_LIST:
        return offers
    held = np.minimum(problem.free[offers] @ rates, value)
    chosen = np.zeros(len(offers), bool)
    chosen[np.argsort(-held / problem.price[offers], kind="stable")[:SHORTLIST]] = True
    for item in items[~problem.open[np.ix_(offers[chosen], items)].any(axis=0)]:
        able = np.flatnonzero(problem.open[offers, item])
        if len(able):
            chosen[able[problem.price[offers[able]].argmin()]] = True
    return offers[chosen]
