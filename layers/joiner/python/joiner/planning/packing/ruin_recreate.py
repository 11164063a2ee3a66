"""Local search by ruin and recreate: a few nodes are emptied and their pods packed again; a result that is not more
expensive is kept.

Nodes that cost more than their pods are worth are chosen most often, together with other nodes of their domain. The
compiled kernel does thousands of iterations a second. Without it, randomized greedy attempts and swaps do a few.
"""

import numpy as np

from joiner.planning.arrays import Floats
from joiner.planning.packing.kernel.compiled_kernel import KernelNodes
from joiner.planning.packing.node_filling import NodePattern, Packing
from joiner.planning.packing.randomized_greedy import GreedyAttempts, pack_best_of_attempts
from joiner.planning.packing.sampling import scarcity_factors
from joiner.planning.packing.search_context import SearchContext, floor_worth
from joiner.planning.packing.swap_search import swap_pods
from joiner.planning.relaxation.packing_problem import PackingProblem

MOST_AT_ONCE = 6
ATTEMPTS = 4
STEPS_A_CELL = 2.8e-5
"""The effort of the compiled kernel for one item that it considers, in steps."""
TURNS = 64
"""The number of iterations between two checks of the clock."""
PATIENCE = 150
"""The search ends after this many iterations per node without an improvement."""


def ruin_and_recreate(
    problem: PackingProblem,
    packing: Packing,
    worth: Floats,
    context: SearchContext,
    *,
    share: float,
    good_enough: float,
    patience: int = PATIENCE,
    warmth: float = 0.0,
) -> Packing:
    """Return a packing that is at most as expensive as before.

    The search stops when this share of the effort is used up, the price is ``good_enough``, or ``patience``
    iterations per node found nothing. With ``warmth``, a result may at first be more expensive by that share of a
    node's price, and by less and less towards the end; ``patience`` is then not used.
    """
    if context.filler.kernel is None:
        return _ruin_and_recreate_in_numpy(problem, packing, worth, context, share=share, good_enough=good_enough)
    value = floor_worth(problem, worth)
    plan, total, best, idle = _nodes(problem, packing, value, context), packing.price, packing.price, 0
    fill_worth = value * scarcity_factors(problem, plan.offer[: plan.number], np.ones(plan.number))
    found, slack, began = plan, warmth * total / max(plan.number, 1), context.meter.share
    while (
        plan.number > 1
        and best > good_enough
        and not context.meter.spent(share)
        and (warmth or idle < patience * plan.number)
    ):
        cooled = min((context.meter.share - began) / max(share - began, 1e-9), 1.0)
        saved, cells = context.filler.kernel.repack(plan, value, fill_worth, TURNS, slack * (1 - cooled))
        context.meter.spend(0.05 + STEPS_A_CELL * cells)
        total -= saved
        if total < best - 1e-9:
            best, found, idle = total, plan.copy() if warmth else plan, 0
        else:
            idle += TURNS
    rows = [
        (int(found.offer[node]), np.flatnonzero(found.counts[node]), found.counts[node]) for node in range(found.number)
    ]
    patterns = tuple(NodePattern(offer, items, counts[items], 1) for offer, items, counts in rows)
    price = sum(float(problem.price[one.offer]) for one in patterns)
    return Packing(price, patterns) if price < packing.price - 1e-9 else packing


def _nodes(problem: PackingProblem, packing: Packing, value: Floats, context: SearchContext) -> KernelNodes:
    """Return the packing node by node, with memory for half as many nodes again."""
    most = packing.nodes + packing.nodes // 2 + MOST_AT_ONCE
    offer, counts, number = np.zeros(most, np.int64), np.zeros((most, problem.items), np.int64), 0
    for one in packing.patterns:
        offer[number : number + one.times] = one.offer
        counts[number : number + one.times, one.items] = one.counts
        number += one.times
    random_state = context.rng.integers(1, 2**63, 1, np.uint64)
    return KernelNodes(number, offer, counts, problem.price[offer] - counts @ value, random_state)


def _ruin_and_recreate_in_numpy(
    problem: PackingProblem,
    packing: Packing,
    worth: Floats,
    context: SearchContext,
    *,
    share: float,
    good_enough: float,
) -> Packing:
    value = floor_worth(problem, worth)
    nodes = [NodePattern(one.offer, one.items, one.counts, 1) for one in packing.patterns for _ in range(one.times)]
    prices = np.array([float(problem.price[one.offer]) for one in nodes])
    losses = prices - np.array([float(value[one.items] @ one.counts) for one in nodes])
    total, idle = float(prices.sum()), 0
    cheapest = float(problem.price.min())
    while len(nodes) > 1 and total > good_enough and not context.meter.spent(share) and idle < 60 + 12 * len(nodes):
        number = min(len(nodes), int(context.rng.integers(2, MOST_AT_ONCE + 1)))
        chances = np.maximum(losses, 0) + 0.05 * prices.mean()
        taken = context.rng.choice(len(nodes), number, replace=False, p=chances / chances.sum())
        demand = np.zeros(problem.items, np.int64)
        for one in taken:
            demand[nodes[one].items] += nodes[one].counts
        before = float(prices[taken].sum())
        attempts = GreedyAttempts.drawn(ATTEMPTS, before, cheapest, context)
        made = pack_best_of_attempts(problem, demand, value, context, attempts, under=before * 1.1)
        made = swap_pods(problem, made, context, share=share)
        idle += 1
        if made.patterns and made.price <= before + 1e-9:
            if made.price < before - 1e-9:
                idle = 0
            fresh = [
                NodePattern(one.offer, one.items, one.counts, 1) for one in made.patterns for _ in range(one.times)
            ]
            gone = set(taken.tolist())
            nodes = [one for position, one in enumerate(nodes) if position not in gone] + fresh
            prices = np.array([float(problem.price[one.offer]) for one in nodes])
            losses = prices - np.array([float(value[one.items] @ one.counts) for one in nodes])
            total = float(prices.sum())
    return Packing(total, tuple(nodes)) if total < packing.price - 1e-9 else packing
