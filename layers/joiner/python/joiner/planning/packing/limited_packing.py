"""Packing within limits that exclude some of the pods: which pods are packed, and on which nodes.

Pods of higher priority come first; of equal pods, those that use the least of the limits, because then the most pods
are placed. Nodes are chosen by what they use of the limits, and only then by price.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.packing.node_filling import NO_PACKING, Packing
from joiner.planning.packing.search_context import SearchContext, solve_relaxation
from joiner.planning.packing.solve import first_packing
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.relaxation.resource_lp import LimitRows

BESIDE: Final = 0.05
"""What a price counts beside what the node takes of the limits."""
TRIES: Final = 4
LESS: Final = 0.995
"""What came out too large is tried with so much of what would have been right."""


def pack_within_limits(
    problem: PackingProblem, toll: LimitRows, seed: int, meter: Meter
) -> tuple[PackingProblem, Packing]:
    """A packing of as many pods as these limits let in, and the problem that it is of: offers in another order, at
    costs that are no prices, and fewer pods.
    """
    costs = _costs(problem, toll)
    order = np.argsort(costs, kind="stable")
    thrifty = _by_toll(problem, toll, costs, order)
    own = SearchContext.of(thrifty, seed, meter)
    demand = np.where(thrifty.open.any(axis=0), thrifty.demand, 0)
    found = solve_relaxation(thrifty, demand, own)
    each = toll.each[:, order] / np.maximum(toll.left, 1e-9)[:, None]
    share = 1 / max(float((each[:, found.offers] @ found.nodes).max(initial=0.0)), 1.0)
    part, packing = thrifty, NO_PACKING
    for _ in range(TRIES):
        part = _let_in(thrifty, found.worth, share)
        packing = (
            first_packing(part, part.demand, solve_relaxation(part, part.demand, own), own)
            if part.demand.any()
            else NO_PACKING
        )
        used = sum((one.times * each[:, one.offer] for one in packing.patterns), np.zeros(len(each)))
        if float(used.max(initial=0.0)) <= 1 + 1e-9:
            break
        share *= LESS / float(used.max())
    return part, packing


def _costs(problem: PackingProblem, toll: LimitRows) -> Floats:
    """What nodes take of the limits, of that which they take most of, in about the height of prices."""
    shares = (toll.each / np.maximum(toll.left, 1e-9)[:, None]).max(axis=0, initial=0.0)
    dear = shares > 0
    height = float(np.median(problem.price[dear] / shares[dear])) if dear.any() else 1.0
    costs: Floats = shares * height + BESIDE * problem.price
    return costs


def _by_toll(problem: PackingProblem, toll: LimitRows, costs: Floats, order: Whole) -> PackingProblem:
    possible: Marks = np.logical_and.reduce(toll.each <= toll.left[:, None], axis=0)
    return replace(
        problem,
        room=problem.room[order],
        price=costs[order],
        open=(problem.open & possible[:, None])[order],
        domain=problem.domain[order],
        choices=problem.choices.ordered(order),
        merged=None,
    )


def _let_in(problem: PackingProblem, worth: Floats, share: float) -> PackingProblem:
    """The same with those pods only that come first, worth so much of all together; of the last ones as many in each
    domain.
    """
    cost: dict[PodGroup, float] = {}
    for item, members in enumerate(problem.members):
        for group, number in members if problem.open[:, item].any() else ():
            cost[group] = cost.get(group, 0.0) + number * float(worth[item])
    left, parts = share * sum(cost.values()), dict[PodGroup, float]()
    for group in sorted(cost, key=lambda one: (-one.constraints.priority, cost[one] / len(one.pods), one.index)):
        parts[group] = min(left / cost[group], 1.0) if cost[group] > 0 else 1.0
        left = max(left - cost[group], 0.0)
    chosen = tuple(_some(members, parts) for members in problem.members)
    demand = np.array([sum(number for _, number in each) for each in chosen], dtype=np.int64)
    return replace(problem, members=chosen, demand=demand)


def _some(
    members: tuple[tuple[PodGroup, int], ...], parts: Mapping[PodGroup, float]
) -> tuple[tuple[PodGroup, int], ...]:
    """So much of each; somebody is named even where nobody is let in."""
    chosen = [(group, int(number * parts.get(group, 0.0) + 1e-9)) for group, number in members]
    return tuple((group, number) for group, number in chosen if number) or ((members[0][0], 0),)
