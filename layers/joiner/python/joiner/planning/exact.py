"""A handful of pods: the cheapest packing there is, by dynamic programming over all parts of the batch.

The price of every part (so many of this item, so many of that) on one node is looked up; the cheapest way to make up the whole from parts
is then built up from below. Resources, offers and caps are respected; what else the scheduler asks is asked when the plan is carried out.
"""

from typing import Final

import numpy as np

from joiner.planning.arrays import Whole
from joiner.planning.packing import NOTHING_FOUND, Packing, Pattern
from joiner.planning.problem import Problem

MOST_PARTS: Final = 1024
"""Ten different pods have as many parts; the work grows with the square."""


def parts_of(demand: Whole) -> int:
    """How many parts this demand has, none and all included; counted no further than one beyond MOST_PARTS."""
    parts = 1
    for number in demand[demand > 0].tolist():
        parts *= number + 1
        if parts > MOST_PARTS:
            return MOST_PARTS + 1
    return parts


def cheapest(problem: Problem, demand: Whole) -> Packing:
    """The optimum; NOTHING_FOUND if some item fits no offer."""
    items = np.flatnonzero(demand)
    if not len(items):
        return Packing(0.0, ())
    sizes = demand[items] + 1
    digits = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)
    need = digits @ problem.need[items]
    held = np.ones((len(digits), len(problem.price)), bool)
    for resource in range(need.shape[1]):
        held &= need[:, resource, None] <= problem.room[None, :, resource]
    for position, item in enumerate(items):
        if not problem.open[:, item].all():
            held[digits[:, position] > 0] &= problem.open[:, item]
    contents = np.zeros((len(digits), problem.items), dtype=np.int64)
    contents[:, items] = digits
    held[problem.clashing(contents)] = False
    prices = np.where(held, problem.price[None, :], np.inf)
    offer = prices.argmin(axis=1)
    price = prices[np.arange(len(digits)), offer]
    usable = np.flatnonzero(np.isfinite(price))
    usable = usable[usable > 0]
    best, last = np.full(len(digits), np.inf), np.zeros(len(digits), dtype=np.int64)
    best[0] = 0.0
    for whole in range(1, len(digits)):
        within = usable[: np.searchsorted(usable, whole, side="right")]
        inside = within[(digits[within] <= digits[whole]).all(axis=1)]
        if len(inside):
            costs = price[inside] + best[whole - inside]  # numbers of parts subtract like the parts themselves
            choice = int(costs.argmin())
            best[whole], last[whole] = costs[choice], inside[choice]
    if not np.isfinite(best[-1]):
        return NOTHING_FOUND
    patterns, left = [], len(digits) - 1
    while left:
        part = int(last[left])
        inside = np.flatnonzero(digits[part])
        patterns.append(Pattern(int(offer[part]), items[inside], digits[part, inside].astype(np.int64), 1))
        left -= part
    return Packing(float(best[-1]), tuple(patterns))
