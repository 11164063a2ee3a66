"""The search over arrays: a first packing at once, then cheaper ones until the gap to the bound is closed or the effort is used up.

Which way is best depends on the size. A handful of pods is packed exactly. A few nodes are best found by trying much and exchanging pods.
Many nodes come from rounding the relaxation, and better ones from column generation.
"""

from typing import Final

import numpy as np

from joiner.planning.arrays import Whole
from joiner.planning.columns import generate
from joiner.planning.exact import MOST_PARTS, cheapest, parts_of
from joiner.planning.exchanging import exchange
from joiner.planning.neighbourhoods import repack
from joiner.planning.packing import Packing, right_size
from joiner.planning.problem import Problem
from joiner.planning.resource_lp import Relaxation
from joiner.planning.rounding import Chance, by_size, round_off
from joiner.planning.swarming import Attempts, swarm

FEW_NODES: Final = 12
"""Up to so many nodes (of the relaxation) a swarm finds the first packing."""
SOME_NODES: Final = 60
"""Up to so many nodes taking a few apart and packing them anew is worth more than columns."""
CLOSE: Final = 1e-3
"""A plan this close to the bound is good enough."""
FIRST_ATTEMPTS: Final = 6


def propose(problem: Problem, demand: Whole, relaxation: Relaxation, chance: Chance) -> Packing:
    """All of this demand on whole nodes."""
    if parts_of(demand) <= MOST_PARTS:
        return cheapest(problem, demand)
    best, few = first(problem, demand, relaxation, chance)
    goal = relaxation.value * (1 + CLOSE)
    if best.price <= goal or chance.meter.spent():
        return best
    if few and best.nodes <= SOME_NODES:
        return _searched(problem, demand, relaxation, best, chance, goal=goal)
    best = generate(problem, demand, relaxation, best, chance, share=0.8, good_enough=goal)
    if best.price > goal and not chance.meter.spent():
        best = repack(problem, best, relaxation.worth, chance, share=1.0, good_enough=goal)
    return best


def first(problem: Problem, demand: Whole, relaxation: Relaxation, chance: Chance) -> tuple[Packing, bool]:
    """A first packing, and whether it is one of few nodes."""
    if relaxation.nodes.sum() < FEW_NODES:
        worth = by_size(problem, relaxation.worth)
        attempts = Attempts.drawn(FIRST_ATTEMPTS, float(worth @ demand), float(problem.price.min()), chance)
        best = swarm(problem, demand, worth, chance, attempts)
        if best.patterns:
            return best, True
    return right_size(problem, round_off(problem, relaxation, demand, chance).patterns), relaxation.nodes.sum() < SOME_NODES


def _searched(problem: Problem, demand: Whole, relaxation: Relaxation, packing: Packing, chance: Chance, *, goal: float) -> Packing:
    """Exchanges first, then swarms and nodes taken apart in turn."""
    worth = by_size(problem, relaxation.worth)
    value, low = float(worth @ demand), float(problem.price.min())
    best = exchange(problem, packing, chance, share=0.4)
    for share in (0.2, 0.35):
        if best.price > goal and not chance.meter.spent(share):
            made = exchange(
                problem, swarm(problem, demand, worth, chance, Attempts.drawn(8, value, low, chance)), chance, share=share + 0.15
            )
            best = made if made.patterns and made.price < best.price else best
    return repack(problem, best, relaxation.worth, chance, share=1.0, good_enough=goal) if np.isfinite(best.price) else best
