"""Search for the cheapest plan: propose, realize, repair, prove.

A proposal comes from arrays (``packing``), and each of its pods is placed by the scheduler's rules (``placement``).
Small plans, and plans that leave pods out, are also made by the slower methods. A plan is better if it places more
pods, higher priorities first; then if it is cheaper; then if it has fewer nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from joiner.cluster.resources import CPU, MEMORY
from joiner.planning.arrays import Whole
from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.packing.first_fit import pack_first_fit
from joiner.planning.packing.limited_packing import pack_within_limits
from joiner.planning.packing.node_filling import Packing
from joiner.planning.packing.randomized_rounding import FEW_ITEMS, pack_greedily
from joiner.planning.packing.search_context import SearchContext, floor_worth, solve_relaxation, tighten_relaxation
from joiner.planning.packing.solve import solve_packing
from joiner.planning.placement.domain_repair import clear_blocked_domains
from joiner.planning.placement.local_search import improve_plan
from joiner.planning.placement.realize_packing import PackingRealizer, expressible_groups
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer, order_groups
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.limit_rows import is_within_limits, limit_rows_of
from joiner.planning.relaxation.lower_bound import LowerBound, compute_lower_bound, single_item_bound
from joiner.planning.relaxation.packing_problem import PackingProblem, compile_problem
from joiner.planning.relaxation.resource_lp import LimitRows, Relaxation
from joiner.planning.state.checkpoint import ScoredPlan, clear_plan, emptied, keep_better, restore_layout, score_plan
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.domain_assignment import DomainAssignment, assign_domains, assign_quotas
from joiner.planning.state.plan_state import PlanState

SMALL_BATCH_PODS = 40
"""Up to here, first-fit always runs for comparison, and sequential placement runs where arrays could not express every
rule.
"""
SMALL_GAP = 1.02
"""A small plan with rules between pods whose price is above its bound by more than this factor is placed sequentially
as well.
"""
MOST_FIRST_FIT_PODS = 300
"""With more pods, first-fit costs more time than the comparison is worth."""
MOST_SEQUENTIAL_PODS = 3_000
"""With more pods, sequential placement of all of them takes minutes: pods that are left wait for the next plan."""
ORDERS = 5
MOST_REORDERED_PODS = 2_000
"""Up to here, a packing is realized in up to ORDERS orders while pods are left; with more pods that takes too long."""
REORDERING_MARGIN = 4.0
"""One more order, and the steps after it, take this many times as long as realizing once."""
PODS_PER_COMPILE_TIME = 12_000
"""Realizing a packing takes about as long as compiling its problem, and once more for so many pods."""
PODS_PER_NODE_TIME = 25
"""With many nodes and few kinds of pods, realizing one node takes as long as compiling so many pods."""
LEAST_PODS_FOR_TIME = 1000
"""With fewer pods, compiling takes longer than realizing, whatever the number of nodes."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What is known of the plan that the state was left with: the bound for the pods that it places, and what the
    greedy would pay (0 where it was not tried).
    """

    proven: float
    greedy: float


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """The plan by arrays. ``proven``: a bound if all pods have a place; ``hopeful``: pods are left that some offer
    could hold. ``exceeded``: limits that keep pods out, and the problem that they do in.
    """

    attempt: ScoredPlan
    greedy: float
    proven: float | None
    hopeful: bool
    exceeded: tuple[PackingProblem, DomainAssignment, LimitRows] | None = None


def search(state: PlanState, meter: Meter, seed: int) -> SearchResult:
    """Leave the state with the best plan found: propose, realize, repair, prove.

    ``_propose_and_realize`` packs arrays and places the packing by every rule. ``_repair`` places what was left, within
    limits and in other orders. ``_prove`` finds the lower bound for the pods that the plan places.
    """
    pods = state.pods_left
    if not pods:
        return SearchResult(0.0, 0.0)
    proposed = _propose_and_realize(state, meter, seed)
    best = _repair(state, proposed, pods, meter, seed)
    proven = proposed.proven
    if proven is None or best.missing:
        proven = _prove(state, meter)
    return SearchResult(float(min(proven, state.price)), float(proposed.greedy))


def _repair(state: PlanState, proposed: ProposedPlan, pods: int, meter: Meter, seed: int) -> ScoredPlan:
    """Return the best of the proposed plan and of those that the slower methods find; the state is left with it.

    ``pods`` is how many pods waited before anything was placed.
    """
    best = proposed.attempt
    if best.missing and proposed.exceeded is not None:
        best = _within_limits(state, best, *proposed.exceeded, meter=meter, seed=seed)
    doubtful = proposed.hopeful or bool(best.score[0])
    few = pods <= SMALL_BATCH_PODS and not meter.spent()
    ruled = any(not state.rules[group.index].free for group in state.groups.pending)
    expensive = proposed.proven is None or _loose(state) or (ruled and state.price > SMALL_GAP * proposed.proven)
    if (doubtful and pods <= MOST_SEQUENTIAL_PODS) or (few and expensive):
        clear_plan(state)
        frontier, known = OfferFrontier(state), compute_lower_bound(state)
        for attempt in _sequential(state, frontier, known, meter, complete=not doubtful):
            best = min(best, attempt, key=lambda one: one.score)
        restore_layout(state, best.layout)
        if best.missing and pods <= MOST_FIRST_FIT_PODS:
            best = clear_blocked_domains(state, frontier, known.shares, best, meter)
    elif few and ruled:
        best = _improve(state, best, meter)
    return best


def _improve(state: PlanState, made: ScoredPlan, meter: Meter) -> ScoredPlan:
    """Improve the plan by local search: pods that conflicted with a neighbour may have left a node that is too
    large.
    """
    with emptied(state):
        frontier, known = OfferFrontier(state), compute_lower_bound(state)
    improve_plan(state, frontier, known.shares, meter)
    return keep_better(state, made)


def _loose(state: PlanState) -> bool:
    """Whether some spread allows more than the even deal that was made."""
    return any(
        (rule := state.rules[group.index].assigned_spread) and rule.spread.max_skew > 1
        for group in state.groups.pending
    )


def _propose_and_realize(state: PlanState, meter: Meter, seed: int) -> ProposedPlan:
    """By arrays as far as they can express it; whoever is left is placed one after the other."""
    waiting = _waiting(state)
    everybody = sum(state.left[group] for group in waiting)
    _fill_existing_nodes(state, waiting)
    groups = [group for group in waiting if state.left[group]]
    worth = _sizes(state, groups)
    dealt = assign_domains(state, groups, worth)
    inside = expressible_groups(state, groups, dealt)
    proven: float | None = None
    exceeded: tuple[PackingProblem, DomainAssignment, LimitRows] | None = None
    price = 0.0
    if inside and any(market.launchable for market in state.markets):
        problem = compile_problem(state, dealt, inside, narrowed=state.narrow)
        demand = np.where(problem.open.any(axis=0), problem.demand, 0)
        everything = int(demand.sum()) == state.pods_left
        context = SearchContext.of(problem, seed, meter)
        compiled = meter.seconds
        relaxation = solve_relaxation(problem, demand, context)
        if meter.allowance:
            relaxation = tighten_relaxation(problem, demand, context, relaxation)
        by_node = (
            PODS_PER_NODE_TIME * float(relaxation.nodes.sum()) / max(everybody, LEAST_PODS_FOR_TIME)
            if problem.items <= FEW_ITEMS
            else 0.0
        )
        meter.keep_back(compiled * max(1 + everybody / PODS_PER_COMPILE_TIME, by_node))
        toll = limit_rows_of(state, problem)
        exceeded = (problem, dealt, toll) if toll is not None and not is_within_limits(toll, relaxation) else None
        provable = int(demand.sum()) == everybody and _provable(state, problem, dealt, relaxation)
        if (
            not provable
            and meter.allowance
            and SMALL_BATCH_PODS < int(demand.sum()) == state.pods_left
            and not state.existing
        ):
            proven = compute_lower_bound(
                state, limited=True
            ).price_per_hour  # for all of them: now, and not when the deadline is near
        packing, price = _best_packing(problem, demand, relaxation, context)
        price = (
            price if everything and not state.narrow else 0.0
        )  # a greedy that leaves pods or rules aside is none to compare with
        carrier = _realize(state, problem, dealt, packing, meter)
        rest = np.where(problem.open.any(axis=0), carrier.left(), 0)
        if rest.any():
            carrier.realize(pack_greedily(problem, rest, floor_worth(problem, relaxation.worth), context))
        carrier.finish()
        if provable:
            proven = max(relaxation.value * (1 - 1e-9), single_item_bound(state, problem))
            if (
                problem.merged is None and problem.firm.all()
            ):  # what columns prove holds for these domains, and with all these rules
                proven = max(proven, context.proven_for(demand))
    hopeful = False
    if any(state.left[group] for group in waiting):
        frontier = OfferFrontier(state)
        SequentialPlacer(state, frontier, _shares(state, worth), PlacementStrategy()).fill()
        hopeful = any(
            state.left[group] and any(fits(group, one.one.room) for one in frontier.of(group)) for group in waiting
        )
    return ProposedPlan(score_plan(state), price, proven, hopeful, exceeded)


def _within_limits(
    state: PlanState,
    before: ScoredPlan,
    problem: PackingProblem,
    dealt: DomainAssignment,
    toll: LimitRows,
    *,
    meter: Meter,
    seed: int,
) -> ScoredPlan:
    """The better of this attempt and of one that makes the most of the limits; the state is left with it."""
    clear_plan(state)
    _fill_existing_nodes(state, _waiting(state))
    part, packing = pack_within_limits(problem, toll, seed, meter)
    carrier = PackingRealizer(state, part, dealt)
    carrier.realize(packing)
    carrier.finish()
    worth = _sizes(state, [group for group in state.groups.pending if state.left[group]])
    SequentialPlacer(state, OfferFrontier(state), _shares(state, worth), PlacementStrategy()).fill()
    return keep_better(state, before)


def _provable(state: PlanState, problem: PackingProblem, dealt: DomainAssignment, relaxation: Relaxation) -> bool:
    """Whether this relaxation is a bound for all plans that place its pods. To be asked before anything is opened: it
    looks at what is left of the limits.
    """
    within = is_within_limits(limit_rows_of(state, problem), relaxation)
    # who was dealt to a domain might be cheaper off in another, unless all domains offer the same
    everywhere = problem.merged is not None or not dealt.shares_of
    whole = everywhere and not state.existing and not state.narrow
    return whole and within and relaxation.firm and not problem.choices.has_supplies and problem.one_tier


def _realize(
    state: PlanState, problem: PackingProblem, dealt: DomainAssignment, packing: Packing, meter: Meter
) -> PackingRealizer:
    """The proposal in the state. Which of many pods that look alike goes where is left open by it; if some clash with
    their neighbours and find no place, they may do so in another order, while there is time; the best of these is made
    again unless it was the last.
    """
    began = meter.seconds
    carrier = _realize_once(state, problem, dealt, packing, 0)
    once, missing = meter.seconds - began, [int(carrier.left().sum())]
    for order in range(1, ORDERS if problem.demand.sum() <= MOST_REORDERED_PODS else 1):
        if not missing[-1]:
            return carrier
        if meter.overdue(REORDERING_MARGIN * once):
            break
        carrier = _realize_once(state, problem, dealt, packing, order)
        missing.append(int(carrier.left().sum()))
    best = missing.index(min(missing))
    return carrier if missing[-1] == missing[best] else _realize_once(state, problem, dealt, packing, best)


def _realize_once(
    state: PlanState, problem: PackingProblem, dealt: DomainAssignment, packing: Packing, order: int
) -> PackingRealizer:
    for room in reversed(list(state.new)):
        state.close(room)
    carrier = PackingRealizer(state, problem, dealt, order)
    carrier.realize(packing)
    return carrier


def _best_packing(
    problem: PackingProblem, demand: Whole, relaxation: Relaxation, context: SearchContext
) -> tuple[Packing, float]:
    """The cheapest proposal, and what first-fit would pay where it was quick to find out."""
    packing = solve_packing(problem, demand, relaxation, context)
    pods = int(demand.sum())
    if pods > (SMALL_BATCH_PODS if context.meter.spent() else MOST_FIRST_FIT_PODS):
        return packing, 0.0
    simple = pack_first_fit(problem, demand)
    return (simple if simple.price < packing.price - 1e-9 else packing), simple.price if simple.patterns else 0.0


def _sizes(state: PlanState, groups: list[PodGroup]) -> dict[PodGroup, float]:
    """About what a pod is worth before anybody has worked it out: cores, and memory at the usual four GiB a core."""
    rates = {CPU: 1e-3, MEMORY: 2.0**-32}
    by_position = [rates.get(name, 0.0) for name in state.groups.resources]
    return {group: 1e-6 + sum(map(float.__mul__, by_position, map(float, group.vector))) for group in groups}


def _waiting(state: PlanState) -> list[PodGroup]:
    """Groups with pods that need a place, and could have one."""
    return [group for group in state.groups.pending if state.left[group] and not group.refused]


def _shares(state: PlanState, worth: Mapping[PodGroup, float]) -> dict[int, float]:
    """What a pod is worth, by its group's index; nothing where nobody has worked it out."""
    return {group.index: worth.get(group, 0.0) for group in state.groups.pending}


def _fill_existing_nodes(state: PlanState, waiting: list[PodGroup]) -> None:
    """What stands is filled first: it is paid for."""
    if state.existing:
        worth = _sizes(state, waiting)
        SequentialPlacer.filling_only(state, _shares(state, worth)).fill_existing_nodes()


def _sequential(
    state: PlanState, frontier: OfferFrontier, known: LowerBound, meter: Meter, *, complete: bool
) -> Iterator[ScoredPlan]:
    """What the simple ways make, one after the other."""
    for approach in _approaches(state, scarce=not complete):
        if approach.last_resort and complete:
            return
        if approach.dealt:
            shares = {index: min(share, 1e9) for index, share in known.shares.items()}
            assign_quotas(state, order_groups(state, shares, "worth"))
        SequentialPlacer(state, frontier, known.shares, approach).fill()
        state.quotas.clear()
        meter.spend(2.0)
        if not approach.dealt or keeps_all_rules(state):
            improve_plan(state, frontier, known.shares, meter)
            attempt = score_plan(state)
            # whatever else is tried could only be cheaper, or place more: that is worth no more than the effort
            complete = True
            yield attempt
        clear_plan(state)
        if complete and meter.spent():
            return


def _approaches(state: PlanState, *, scarce: bool) -> Iterator[PlacementStrategy]:
    """The ways worth trying, the most promising first. Dealing pods out over zones can fail; not doing so cannot.
    ``scarce``: places may be taken by pods that could go elsewhere, so those with little choice go first as well.
    """
    spread = any(state.rules[one.index].assigned_spread for one in state.left)
    many = state.pods_left > 4 * SMALL_BATCH_PODS
    ways = [("worth", None), *([("scarce", None)] if scarce else []), ("cpu", 32_000 if many else None)]
    if not many:
        ways += [("memory", None), *(("worth", largest) for largest in (64_000, 32_000, 16_000, 8_000, 4_000, 2_000))]
    for order, largest in ways:
        if spread:
            yield PlacementStrategy(order, largest, dealt=True)
        if not (spread and many):
            yield PlacementStrategy(order, largest)
    if not many:
        yield PlacementStrategy(sharing=False)
    if spread and many:
        yield PlacementStrategy(last_resort=True)


def _prove(state: PlanState, meter: Meter) -> float:
    """Return the lower bound ($/h) for the pods that this plan places. For a first plan, cuts are left out to save
    time.
    """
    missing = dict(state.left)
    with emptied(state):
        for one, number in missing.items():
            state.left[one] -= number
        proven = compute_lower_bound(state, limited=True, whole=meter.allowance > 0).price_per_hour
        for one, number in missing.items():
            state.left[one] += number
    return proven
