"""Local search: a few nodes are taken apart and packed anew, again and again; what is no dearer stays.

Nodes that cost more than their pods are worth are taken apart the most often.
"""

import numpy as np

from joiner.planning.arrays import Floats
from joiner.planning.exchanging import exchange
from joiner.planning.packing import Packing, Pattern
from joiner.planning.problem import Problem
from joiner.planning.rounding import Chance, by_size
from joiner.planning.swarming import Attempts, swarm

MOST_AT_ONCE = 6
ATTEMPTS = 4


def repack(problem: Problem, packing: Packing, worth: Floats, chance: Chance, *, share: float, good_enough: float) -> Packing:
    """At most as dear as before; until this share of the effort is used up, or the price is ``good_enough``."""
    value = by_size(problem, worth)
    nodes = [Pattern(one.offer, one.items, one.counts, 1) for one in packing.patterns for _ in range(one.times)]
    prices = np.array([float(problem.price[one.offer]) for one in nodes])
    losses = prices - np.array([float(value[one.items] @ one.counts) for one in nodes])
    total, idle = float(prices.sum()), 0
    cheapest = float(problem.price.min())
    while len(nodes) > 1 and total > good_enough and not chance.meter.spent(share) and idle < 60 + 12 * len(nodes):
        number = min(len(nodes), int(chance.dice.integers(2, MOST_AT_ONCE + 1)))
        chances = np.maximum(losses, 0) + 0.05 * prices.mean()
        taken = chance.dice.choice(len(nodes), number, replace=False, p=chances / chances.sum())
        demand = np.zeros(problem.items, np.int64)
        for one in taken:
            demand[nodes[one].items] += nodes[one].counts
        before = float(prices[taken].sum())
        attempts = Attempts.drawn(ATTEMPTS, before, cheapest, chance)
        made = swarm(problem, demand, value, chance, attempts, under=before * 1.1)
        made = exchange(problem, made, chance, share=share)
        idle += 1
        if made.patterns and made.price <= before + 1e-9:
            if made.price < before - 1e-9:
                idle = 0
            fresh = [Pattern(one.offer, one.items, one.counts, 1) for one in made.patterns for _ in range(one.times)]
            gone = set(taken.tolist())
            nodes = [one for position, one in enumerate(nodes) if position not in gone] + fresh
            prices = np.array([float(problem.price[one.offer]) for one in nodes])
            losses = prices - np.array([float(value[one.items] @ one.counts) for one in nodes])
            total = float(prices.sum())
    return Packing(total, tuple(nodes)) if total < packing.price - 1e-9 else packing
