"""Plans of many pods: an optimisation with arrays packs the pods, then its packing is placed by every rule."""

from dataclasses import dataclass

import numpy as np

from joiner.planning.effort import Meter
from joiner.planning.packing.node_filling import Packing
from joiner.planning.packing.randomized_rounding import pack_greedily
from joiner.planning.packing.search_context import SearchContext, floor_worth, solve_relaxation, tighten_relaxation
from joiner.planning.packing.solve import solve_packing
from joiner.planning.placement.first_fit_plan import FirstFit, pack_for_comparison
from joiner.planning.placement.realize_packing import PackingRealizer
from joiner.planning.relaxation.limit_rows import is_within_limits, limit_rows_of
from joiner.planning.relaxation.lower_bound import compute_lower_bound, single_item_bound
from joiner.planning.relaxation.lp_values import LimitRows, Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import (
    FEW_ITEMS,
    FEW_PODS,
    LEAST_PODS_FOR_TIME,
    MOST_REORDERED_PODS,
    ORDERS,
    PODS_PER_COMPILE_TIME,
    PODS_PER_NODE_TIME,
    REORDERING_MARGIN,
)


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """What is known of the plan that arrays made (see ``ProposedPlan``). ``began`` is when realizing began."""

    began: float
    greedy: FirstFit | None = None
    proven: float | None = None
    exceeded: tuple[PackingProblem, DomainAssignment, LimitRows] | None = None


def plan_with_arrays(
    state: PlanState, problem: PackingProblem, assignment: DomainAssignment, total: int, context: SearchContext
) -> ArrayPlan:
    """Pack the problem with arrays, and place the packing by every rule. ``total`` is the number of pods that a node
    could hold, those included that fit existing nodes."""
    meter = context.meter
    demand = np.where(problem.open.any(axis=0), problem.demand, 0)
    everything = int(demand.sum()) == state.pods_left
    compiled, relaxation = meter.seconds, solve_relaxation(problem, demand, context)
    if meter.allowance:
        relaxation = tighten_relaxation(problem, demand, context, relaxation)
    meter.keep_back(_estimate_realizing(problem, relaxation, total, compiled))
    limit_rows = limit_rows_of(state, problem)
    exceeded = limit_rows is not None and not is_within_limits(limit_rows, relaxation)
    provable = int(demand.sum()) == total and _provable(state, problem, assignment, relaxation)
    proven: float | None = None
    if not (provable or exceeded) and meter.allowance and everything and demand.sum() > FEW_PODS and not state.existing:
        # The bound is computed for all groups now, not near the deadline. Where limits bind, pods may be left, and the
        # bound is then that of the others.
        proven = compute_lower_bound(state, limited=True).price_per_hour
    simple = pack_for_comparison(problem, demand, relaxation, meter)
    # A packing without some pods or rules is not comparable.
    comparable = bool(simple.patterns) and everything and not state.narrow
    packing = solve_packing(problem, demand, relaxation, context)
    packing = simple if simple.is_better_than(packing.price, packing.nodes) else packing
    began = meter.seconds
    realizer = _realize(state, problem, assignment, packing, meter)
    rest = np.where(problem.open.any(axis=0), realizer.left(), 0)
    if rest.any():
        realizer.realize(pack_greedily(problem, rest, floor_worth(problem, relaxation.worth), context))
    realizer.finish()
    if provable:
        proven = max(relaxation.value * (1 - 1e-9), single_item_bound(state, problem))
        if problem.merged is None and problem.firm.all():
            # The column bound is valid for these domains and with all these rules.
            proven = max(proven, context.proven_for(demand))
    return ArrayPlan(
        began,
        FirstFit(simple, problem, assignment) if comparable else None,
        proven,
        (problem, assignment, limit_rows) if exceeded and limit_rows is not None else None,
    )


def _estimate_realizing(problem: PackingProblem, relaxation: Relaxation, total: int, compiled: float) -> float:
    """Return about how many seconds realizing takes, from those that compiling took."""
    by_node = (
        PODS_PER_NODE_TIME * float(relaxation.nodes.sum()) / max(total, LEAST_PODS_FOR_TIME)
        if problem.items <= FEW_ITEMS
        else 0.0
    )
    return compiled * max(1 + total / PODS_PER_COMPILE_TIME, by_node)


def _provable(state: PlanState, problem: PackingProblem, assignment: DomainAssignment, relaxation: Relaxation) -> bool:
    """Return whether this relaxation is a bound for all plans that place its pods. Call it before any node is opened:
    it depends on the remaining limits."""
    within = is_within_limits(limit_rows_of(state, problem), relaxation)
    # A pod that was assigned to one domain could be cheaper in another, unless all domains have the same offers.
    everywhere = problem.merged is not None or not assignment.shares_of
    whole = everywhere and not state.existing and not state.narrow
    return whole and within and relaxation.firm and not problem.choices.has_supplies and problem.one_tier


def _realize(
    state: PlanState, problem: PackingProblem, assignment: DomainAssignment, packing: Packing, meter: Meter
) -> PackingRealizer:
    """Realize the packing in the state.

    The packing does not determine which of many equal pods goes to which node. If some conflict with other pods and
    are not placed, other orders are tried while time is left. The best order is made again unless it was the last.
    """
    began = meter.seconds
    realizer = _realize_once(state, problem, assignment, packing, 0)
    once, missing = meter.seconds - began, [int(realizer.left().sum())]
    for order in range(1, ORDERS if problem.demand.sum() <= MOST_REORDERED_PODS else 1):
        if not missing[-1]:
            return realizer
        if meter.overdue(REORDERING_MARGIN * once):
            break
        realizer = _realize_once(state, problem, assignment, packing, order)
        missing.append(int(realizer.left().sum()))
    best = missing.index(min(missing))
    return realizer if missing[-1] == missing[best] else _realize_once(state, problem, assignment, packing, best)


def _realize_once(
    state: PlanState, problem: PackingProblem, assignment: DomainAssignment, packing: Packing, order: int
) -> PackingRealizer:
    for node in reversed(list(state.new)):
        state.close(node)
    realizer = PackingRealizer(state, problem, assignment, order)
    realizer.realize(packing)
    return realizer
