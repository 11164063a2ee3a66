"""The search over arrays: a first packing at once, then cheaper ones until the gap to the bound is closed or the effort is used up.

Which way is best depends on the size. A handful of pods is packed exactly. Otherwise nodes are taken apart and packed anew, thousands of
times; where few nodes leave little to take apart, from several beginnings. Many nodes of few kinds of pods come from column generation
first, which finds out which sizes go together.
"""

from typing import Final

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
MANY_NODES: Final = 60
"""From so many nodes on columns come first: taking apart only finds what is near."""
FEW_ITEMS: Final = 120
"""Up to so many items, or where there are as many nodes as items, columns settle in time; otherwise they are worth it only if there is
PLENTY_OF_TIME."""
PLENTY_OF_TIME: Final = 1500.0
COLUMNS: Final = 0.5
"""Their share of the effort; MOSTLY_COLUMNS where patterns repeat, as they do with FAR_MORE nodes than items."""
MOSTLY_COLUMNS: Final = 0.9
FAR_MORE: Final = 4
CLOSE: Final = 1e-3
"""A plan this close to the bound is good enough."""
FIRST_ATTEMPTS: Final = 3
NEXT_ATTEMPTS: Final = 3
BEGINNINGS: Final = 12
"""So many new beginnings in a row that lead to nothing better end the search."""
HASTE: Final = 80
"""The patience of later beginnings."""


def propose(problem: Problem, demand: Whole, relaxation: Relaxation, chance: Chance) -> Packing:
    """All of this demand on whole nodes."""
    if parts_of(demand) <= MOST_PARTS:
        return cheapest(problem, demand)
    best = first(problem, demand, relaxation, chance)
    goal = relaxation.value * (1 + CLOSE)
    if best.price <= goal or chance.meter.spent():
        return best
    many = best.nodes >= MANY_NODES
    if many and (problem.items <= max(FEW_ITEMS, best.nodes) or chance.meter.allowance >= PLENTY_OF_TIME):
        share = MOSTLY_COLUMNS if best.nodes >= FAR_MORE * problem.items and problem.items <= FEW_ITEMS else COLUMNS
        best = generate(problem, demand, relaxation, best, chance, share=share, good_enough=goal)
    best = repack(problem, best, relaxation.worth, chance, share=1.0, good_enough=goal)
    return _from_elsewhere(problem, demand, relaxation, best, chance, goal=goal)


def first(problem: Problem, demand: Whole, relaxation: Relaxation, chance: Chance) -> Packing:
    """A first packing."""
    if relaxation.nodes.sum() < FEW_NODES:
        made = _swarmed(problem, demand, relaxation, chance, FIRST_ATTEMPTS)
        if made.patterns:
            return made
    return right_size(problem, round_off(problem, relaxation, demand, chance).patterns)


def _swarmed(problem: Problem, demand: Whole, relaxation: Relaxation, chance: Chance, number: int) -> Packing:
    worth = by_size(problem, relaxation.worth)
    attempts = Attempts.drawn(number, float(worth @ demand), float(problem.price.min()), chance)
    return swarm(problem, demand, worth, chance, attempts)


def _from_elsewhere(problem: Problem, demand: Whole, relaxation: Relaxation, packing: Packing, chance: Chance, *, goal: float) -> Packing:
    """The same from other beginnings, while there is time: taking apart a few nodes of a small plan ends where it began."""
    best, idle = packing, 0
    if packing.nodes <= MANY_NODES and problem.items <= FEW_ITEMS:
        best = exchange(problem, packing, chance)
    while idle < BEGINNINGS and best.price > goal and not chance.meter.spent():
        made = _swarmed(problem, demand, relaxation, chance, NEXT_ATTEMPTS)
        if made.patterns:
            if made.nodes <= MANY_NODES and problem.items <= FEW_ITEMS:
                made = exchange(problem, made, chance)
            made = repack(problem, made, relaxation.worth, chance, share=1.0, good_enough=goal, patience=HASTE)
        idle = 0 if made.price < best.price - 1e-9 else idle + 1
        best = made if made.price < best.price - 1e-9 else best
    return best
