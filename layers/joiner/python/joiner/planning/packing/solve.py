"""The search over arrays: a first packing, then cheaper ones until the gap to the bound is closed or the effort is used
up.

The method depends on the size. A few pods are packed exactly. Otherwise ruin and recreate runs thousands of steps, for
few nodes from several first packings. For many nodes and few kinds of pods, column generation comes first: it finds
which sizes fit together.
"""

from dataclasses import replace

import numpy as np

from joiner.planning.arrays import Whole
from joiner.planning.packing.column_generation import CLOSE, generate_columns
from joiner.planning.packing.exact_dp import count_parts, pack_exactly
from joiner.planning.packing.independent_parts import IndependentPart, find_independent_parts
from joiner.planning.packing.node_filling import NodePattern, Packing, right_size
from joiner.planning.packing.randomized_greedy import GreedyAttempts, pack_best_of_attempts
from joiner.planning.packing.randomized_rounding import DEPTH, round_relaxation
from joiner.planning.packing.ruin_recreate import PATIENCE, ruin_and_recreate
from joiner.planning.packing.search_context import (
    SearchContext,
    floor_worth,
    solve_relaxation,
)
from joiner.planning.packing.swap_search import swap_pods
from joiner.planning.relaxation.lp_values import Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.tuning import (
    ANNEALING_PATIENCE,
    ANNEALING_WARMTH,
    COLUMN_NODES_PER_ITEM,
    COLUMN_SHARE,
    COLUMN_STEPS,
    FEW_ITEMS,
    FEW_PODS,
    FIRST_ATTEMPTS,
    LEAST_COLUMN_NODES,
    LEFT_OVER_SHARE,
    MOST_ANNEALED_NODES,
    MOST_EXACT_PARTS,
    MOST_GREEDY_NODES,
    MOST_RESTARTS,
    NEXT_ATTEMPTS,
    PART_NODES,
    PART_SHARE,
    REPEATING_COLUMN_SHARE,
    REPEATING_NODES_PER_ITEM,
    RESTART_PATIENCE,
)


def solve_packing(problem: PackingProblem, demand: Whole, relaxation: Relaxation, context: SearchContext) -> Packing:
    """Pack all of this demand on whole nodes."""
    if count_parts(demand) <= MOST_EXACT_PARTS:
        return pack_exactly(problem, demand)
    if parts := find_independent_parts(problem, demand):
        return _solve_parts(problem, demand, context, parts)
    return _solve_joint(problem, demand, relaxation, context)


def _solve_joint(
    problem: PackingProblem, demand: Whole, relaxation: Relaxation, context: SearchContext, *, share: float = 1.0
) -> Packing:
    """Pack a problem that is not divided; the search stops when this share of the effort is used up."""
    times = _times(problem, demand, relaxation)
    if times > 1:
        return _repeated(problem, demand, relaxation, context, times=times, share=share)
    return _searched(problem, demand, relaxation, context, share=share)


def _solve_parts(
    problem: PackingProblem, demand: Whole, context: SearchContext, parts: list[IndependentPart]
) -> Packing:
    """Pack each part by itself; record the sum of their bounds.

    The parts with few pods come first: their shares of the effort are by their numbers of pods, and what they do not
    use is left to those after them.
    """
    patterns, bound, packed = list[NodePattern](), 0.0, 0
    for part in sorted(parts, key=lambda one: int(demand[one.items].sum())):
        own = demand[part.items]
        packed += int(own.sum())
        relaxation = context.relaxed.get(part.key(demand))
        made, least = _solve_part(part.problem, own, relaxation, context, share=packed / int(demand.sum()))
        bound += least
        patterns += part.in_terms_of_whole(made)
    context.prove(demand, bound)
    return Packing(sum(one.times * float(problem.price[one.offer]) for one in patterns), tuple(patterns))


def _solve_part(
    part: PackingProblem, demand: Whole, known: Relaxation | None, context: SearchContext, *, share: float
) -> tuple[Packing, float]:
    """Return a packing of one part, and its lower bound; the search stops when this share of the effort is used up."""
    if count_parts(demand) <= MOST_EXACT_PARTS:
        made = pack_exactly(part, demand)
        if made.patterns:
            return made, made.price * (1 - 1e-9)
    mine = context.of_part(part)
    relaxation = known or solve_relaxation(part, demand, mine)
    made = _solve_joint(part, demand, relaxation, mine, share=share)
    return made, max(relaxation.value * (1 - 1e-9), mine.proven_for(demand))


def _times(problem: PackingProblem, demand: Whole, relaxation: Relaxation) -> int:
    """Return how often a part of a large plan is repeated. A plan of few items is not repeated, because column
    generation works as well on the whole plan."""
    if problem.items <= FEW_ITEMS:
        return 1
    left_over = np.count_nonzero(demand) / max(float(demand.sum()), 1.0)
    return max(1, min(int(relaxation.nodes.sum() // PART_NODES), int(1 + 2 * LEFT_OVER_SHARE / left_over)))


def _repeated(
    problem: PackingProblem,
    demand: Whole,
    relaxation: Relaxation,
    context: SearchContext,
    *,
    times: int,
    share: float,
) -> Packing:
    """Return the same packing of a part ``times`` times, and a packing of the pods that do not divide evenly."""
    part = demand // times
    made = _searched(
        problem, part, solve_relaxation(problem, part, context), context, share=PART_SHARE * share, once=False
    )
    rest = demand - part * times
    patterns = [replace(one, times=one.times * times) for one in made.patterns]
    if rest.any():
        patterns += first_packing(problem, rest, solve_relaxation(problem, rest, context), context).patterns
    whole = Packing(sum(one.times * float(problem.price[one.offer]) for one in patterns), tuple(patterns))
    return ruin_and_recreate(
        problem, whole, relaxation.worth, context, share=share, good_enough=relaxation.value * (1 + CLOSE)
    )


def _searched(
    problem: PackingProblem,
    demand: Whole,
    relaxation: Relaxation,
    context: SearchContext,
    *,
    share: float,
    once: bool = True,
) -> Packing:
    """Return a packing; the search stops when this share of the effort is used up. ``once``: the packing is not a part
    that is repeated, so that more is tried for a small one."""
    best = first_packing(problem, demand, relaxation, context)
    goal = relaxation.value * (1 + CLOSE)
    if best.price <= goal or context.meter.spent(share):
        return best
    many = best.nodes >= LEAST_COLUMN_NODES
    if many and (
        problem.items <= max(FEW_ITEMS, best.nodes // COLUMN_NODES_PER_ITEM) or context.meter.allowance >= COLUMN_STEPS
    ):
        columns = (
            REPEATING_COLUMN_SHARE
            if best.nodes >= REPEATING_NODES_PER_ITEM * problem.items and problem.items <= FEW_ITEMS
            else COLUMN_SHARE
        )
        best = generate_columns(problem, demand, relaxation, best, context, share=columns * share, good_enough=goal)
        goal = max(goal, context.proven_for(demand) * (1 + CLOSE))
    some = (
        MOST_GREEDY_NODES <= best.nodes <= MOST_ANNEALED_NODES
        and demand.sum() > FEW_PODS
        and once
        and context.filler.kernel is not None
    )
    patience = ANNEALING_PATIENCE if some else PATIENCE
    best = ruin_and_recreate(problem, best, relaxation.worth, context, share=share, good_enough=goal, patience=patience)
    if some:
        return ruin_and_recreate(
            problem, best, relaxation.worth, context, share=share, good_enough=goal, warmth=ANNEALING_WARMTH
        )
    return _restart(problem, demand, relaxation, best, context, goal=goal, share=share) if once else best


def first_packing(problem: PackingProblem, demand: Whole, relaxation: Relaxation, context: SearchContext) -> Packing:
    """Return a first packing. For few nodes, its end is packed with more effort, because the search continues from
    them; for many nodes the end is a negligible part."""
    if relaxation.nodes.sum() < MOST_GREEDY_NODES:
        made = _pack_randomized(problem, demand, relaxation, context, FIRST_ATTEMPTS)
        if made.patterns:
            return made
    few = relaxation.nodes.sum() < LEAST_COLUMN_NODES
    depth, tries = 0 if few and context.meter.allowance else DEPTH, 2 if few else 1
    return right_size(
        problem, round_relaxation(problem, relaxation, demand, context, depth=depth, tries=tries).patterns
    )


def _pack_randomized(
    problem: PackingProblem, demand: Whole, relaxation: Relaxation, context: SearchContext, number: int
) -> Packing:
    worth = floor_worth(problem, relaxation.worth)
    attempts = GreedyAttempts.drawn(number, float(worth @ demand), float(problem.price.min()), context)
    return pack_best_of_attempts(problem, demand, worth, context, attempts)


def _restart(
    problem: PackingProblem,
    demand: Whole,
    relaxation: Relaxation,
    packing: Packing,
    context: SearchContext,
    *,
    goal: float,
    share: float,
) -> Packing:
    """Restart from other packings while time is left: for a small plan, ruin and recreate of a few nodes ends in a
    local optimum."""
    few = int(demand.sum()) <= FEW_PODS
    best, idle = swap_pods(problem, packing, context) if few else packing, 0
    while idle < MOST_RESTARTS and best.price > goal and not context.meter.spent(share):
        made = _pack_randomized(problem, demand, relaxation, context, NEXT_ATTEMPTS)
        if made.patterns:
            made = swap_pods(problem, made, context) if few else made
            made = ruin_and_recreate(
                problem, made, relaxation.worth, context, share=share, good_enough=goal, patience=RESTART_PATIENCE
            )
        idle = 0 if made.price < best.price - 1e-9 else idle + 1
        best = made if made.price < best.price - 1e-9 else best
    return best
