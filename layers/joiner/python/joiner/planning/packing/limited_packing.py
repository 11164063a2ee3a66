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
from joiner.planning.relaxation.lp_values import LimitRows
from joiner.planning.relaxation.packing_problem import PackingProblem

BESIDE: Final = 0.05
"""The weight of the price relative to what the node uses of the limits."""
TRIES: Final = 4
LESS: Final = 0.995
"""If a packing is too large, the next attempt uses this factor of the proportional size."""


def pack_within_limits(
    problem: PackingProblem, limit_rows: LimitRows, seed: int, meter: Meter
) -> tuple[PackingProblem, Packing]:
    """Return a packing of as many pods as these limits allow, and its problem. That problem has fewer pods, and its
    offers are in another order with costs that are not prices."""
    costs = _costs(problem, limit_rows)
    order = np.argsort(costs, kind="stable")
    thrifty = _by_limit_use(problem, limit_rows, costs, order)
    own = SearchContext.of(thrifty, seed, meter)
    demand = np.where(thrifty.open.any(axis=0), thrifty.demand, 0)
    found = solve_relaxation(thrifty, demand, own)
    each = limit_rows.each[:, order] / np.maximum(limit_rows.left, 1e-9)[:, None]
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


def _costs(problem: PackingProblem, limit_rows: LimitRows) -> Floats:
    """Return what nodes use of the limits, by the limit that they use most, scaled to about the size of prices."""
    shares = (limit_rows.each / np.maximum(limit_rows.left, 1e-9)[:, None]).max(axis=0, initial=0.0)
    using = shares > 0
    height = float(np.median(problem.price[using] / shares[using])) if using.any() else 1.0
    costs: Floats = shares * height + BESIDE * problem.price
    return costs


def _by_limit_use(problem: PackingProblem, limit_rows: LimitRows, costs: Floats, order: Whole) -> PackingProblem:
    possible: Marks = np.logical_and.reduce(limit_rows.each <= limit_rows.left[:, None], axis=0)
    return replace(
        problem,
        free=problem.free[order],
        price=costs[order],
        open=(problem.open & possible[:, None])[order],
        domain=problem.domain[order],
        choices=problem.choices.ordered(order),
        merged=None,
    )


def _let_in(problem: PackingProblem, worth: Floats, share: float) -> PackingProblem:
    """Return the problem with only the first pods, which have ``share`` of the total worth; of the last group, the
    same share in each domain."""
    cost: dict[PodGroup, float] = {}
    for item, members in enumerate(problem.members):
        for group, number in members if problem.open[:, item].any() else ():
            cost[group] = cost.get(group, 0.0) + number * float(worth[item])
    left, parts = share * sum(cost.values()), dict[PodGroup, float]()
    for group in sorted(cost, key=lambda one: (one.rank, cost[one] / len(one.pods), one.index)):
        parts[group] = min(left / cost[group], 1.0) if cost[group] > 0 else 1.0
        left = max(left - cost[group], 0.0)
    chosen = tuple(_some(members, parts) for members in problem.members)
    demand = np.array([sum(number for _, number in each) for each in chosen], dtype=np.int64)
    return replace(problem, members=chosen, demand=demand)


def _some(
    members: tuple[tuple[PodGroup, int], ...], parts: Mapping[PodGroup, float]
) -> tuple[tuple[PodGroup, int], ...]:
    """Return this share of each member; the result names a group even if no pod is left."""
    chosen = [(group, int(number * parts.get(group, 0.0) + 1e-9)) for group, number in members]
    return tuple((group, number) for group, number in chosen if number) or ((members[0][0], 0),)
