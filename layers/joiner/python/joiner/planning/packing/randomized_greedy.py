"""Small packings: many randomized greedy attempts, computed side by side in the same arrays.

For a few nodes no rule says whether large or small nodes are better. Each attempt has its own limit on the price of a
node, its own way of filling, and its own random numbers; the cheapest attempt is returned. Side by side, an attempt
adds little to the overhead of the arrays.
"""

from dataclasses import dataclass

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
from joiner.planning.packing.randomized_rounding import pack_on_one_node
from joiner.planning.packing.search_context import SearchContext
from joiner.planning.relaxation.packing_problem import PackingProblem


@dataclass(frozen=True, slots=True, eq=False)
class GreedyAttempts:
    """The parameters of each attempt: the most expensive node, the share of what fits that is taken at a time, and the
    random change of the worth of items and of the weight of resources."""

    limit: Floats
    share: Floats
    noise: Floats
    weight_noise: Floats

    @classmethod
    def drawn(cls, number: int, value: float, cheapest: float, context: SearchContext) -> "GreedyAttempts":
        """Return attempts for every useful node size, by the total worth; the first few are not random."""
        rng = context.rng
        sizes = np.exp(np.linspace(np.log(max(value * 1.7, cheapest)), np.log(max(value / 12, cheapest)), number))
        return cls(
            limit=np.maximum(sizes, cheapest),
            share=rng.choice(np.array([1.0, 1.0, 0.5, 0.34]), number),
            noise=np.where(np.arange(number) % 2, rng.choice(np.array([0.1, 0.25, 0.5]), number), 0.0),
            weight_noise=np.where(np.arange(number) % 3 == 2, 0.5, 0.0),
        )


def pack_best_of_attempts(
    problem: PackingProblem,
    demand: Whole,
    worth: Floats,
    context: SearchContext,
    attempts: GreedyAttempts,
    *,
    under: float = np.inf,
) -> Packing:
    """Return the cheapest packing of all attempts, if it is cheaper than ``under``."""
    active = np.flatnonzero(demand)
    best = pack_on_one_node(problem, demand)
    if best.price >= under:
        best = NO_PACKING
    rows = [np.flatnonzero(_offers(problem, demand, limit)) for limit in attempts.limit]
    owner, offers = _joined(rows)
    noise = np.exp(attempts.noise[:, None] * context.rng.standard_normal((len(rows), len(active))))
    weights = np.exp(attempts.weight_noise[:, None] * context.rng.standard_normal((len(rows), problem.need.shape[1])))
    value = worth[active]
    left = np.tile(demand[active].astype(float), (len(rows), 1))
    price, made = np.zeros(len(rows)), [[] for _ in rows]  # type: tuple[Floats, list[list[NodePattern]]]
    alive = np.ones(len(rows), bool)
    while alive.any():
        mine = np.flatnonzero(alive[owner])
        whose = owner[mine]
        way = FillSettings(attempts.share[whose], noise[whose], weights[whose])
        counts = context.filler.fill(offers[mine], active, left[whose], value, way=way)
        context.meter.spend(filling_steps(counts.size))
        chosen = _choose(problem.price[offers[mine]], counts, value, left, whose)
        for attempt, row in chosen.items():
            if row < 0:
                alive[attempt] = False
                price[attempt] = np.inf
                continue
            pattern = _take_row(left[attempt], int(offers[mine[row]]), active, counts[row])
            price[attempt] += pattern.times * float(problem.price[pattern.offer])
            made[attempt].append(pattern)
            if not left[attempt].any():
                alive[attempt] = False
                sized = right_size(problem, made[attempt])
                if sized.price < min(best.price, under) - 1e-12:
                    best = sized
            elif price[attempt] >= min(best.price, under) * 1.15:
                alive[attempt] = False
    return best


def _joined(rows: list[Whole]) -> tuple[Whole, Whole]:
    """Return the attempt of each row, and the offers of all rows, one attempt after the other."""
    owner = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    return owner, np.concatenate(rows) if rows else np.zeros(0, np.int64)


def _take_row(left: Floats, offer: int, active: Whole, counts: Whole) -> NodePattern:
    """Return as many equal nodes of this content as the remaining pods fill; ``left`` is reduced by their pods."""
    inside = np.flatnonzero(counts)
    amounts = counts[inside]
    times = int((left[inside] // amounts).min())
    left[inside] -= times * amounts
    return NodePattern(offer, active[inside], amounts, times)


def _offers(problem: PackingProblem, demand: Whole, limit: float) -> Marks:
    return offers_up_to_price(problem, demand, limit) & problem.open[:, demand > 0].any(axis=1)


def _choose(price: Floats, counts: Whole, value: Floats, left: Floats, whose: Whole) -> dict[int, int]:
    """Return for each attempt the row that becomes a node: the best one for its price, or one that completes the
    packing if that is not more expensive than to continue."""
    held = counts @ value
    ratio = held / price
    rest = left @ value
    ends = (counts == left[whose]).all(axis=1)
    found: dict[int, int] = {}
    starts = np.flatnonzero(np.concatenate([[True], whose[1:] != whose[:-1]]))
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(whose)], strict=True):
        attempt = int(whose[begin])
        best = begin + int(ratio[begin:end].argmax())
        if ratio[best] <= 0:
            found[attempt] = -1
            continue
        finishing = begin + np.flatnonzero(ends[begin:end])
        if len(finishing):
            last = int(finishing[price[finishing].argmin()])
            if price[last] <= price[best] + (rest[attempt] - held[best]) / ratio[best]:
                best = last
        found[attempt] = best
    return found
