"""From a world to the best plan found in it: propose by arrays, carry out by rules, compare with what the simple ways make.

Better is a plan that places more pods, the more important ones first; among those the cheaper; then the one with fewer nodes.
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

FEW_PODS = 40
"""Up to here first-fit is always run for comparison, and the sequential ways are tried where arrays could not express everything."""
NOT_FAR = 1.02
"""A small plan with rules between pods that is further above its bound is looked for in turn as well."""
MANY_PODS = 300
"""Beyond, first-fit takes longer than it tells."""
MOST_IN_TURN = 3_000
"""Beyond, placing all of them one after the other takes minutes: whoever was left out waits for the next plan."""
ORDERS = 5
QUICKLY_CARRIED = 2_000
"""Up to so many pods a proposal is carried out in so many orders if need be; with more that takes too long."""
THEN = 4.0
"""What comes after an order of carrying out, and the order itself, takes so many times as long as one order."""
CARRIED = 12_000
"""Carrying a plan out takes about as long as compiling its world did, and once more for so many pods: that is by pod, not by kind."""
NODE_FOR_PODS = 25
"""Or, where nodes are many and kinds few, carrying out takes for a node what compiling took for so many pods. Of fewer than TELLING pods
compiling takes longer than carrying out whatever their nodes."""
TELLING = 1000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What is known of the plan that the world was left with: the bound for the pods that it places, and what the greedy would pay (0 where
    it was not tried)."""

    proven: float
    greedy: float


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """The plan by arrays. ``proven``: a bound if all pods have a place; ``hopeful``: pods are left that some offer could hold.
    ``exceeded``: limits that keep pods out, and the problem that they do in."""

    attempt: ScoredPlan
    greedy: float
    proven: float | None
    hopeful: bool
    exceeded: tuple[PackingProblem, DomainAssignment, LimitRows] | None = None


def search(world: PlanState, meter: Meter, seed: int) -> SearchResult:
    """Leave the state with the best plan found: propose, realize, repair, prove.

    ``_propose_and_realize`` packs arrays and places the packing by every rule. ``_repair`` places what was left, within limits and in other
    orders. ``_prove`` finds the lower bound for the pods that the plan places.
    """
    pods = world.pods_left
    if not pods:
        return SearchResult(0.0, 0.0)
    proposed = _propose_and_realize(world, meter, seed)
    best = _repair(world, proposed, pods, meter, seed)
    proven = proposed.proven
    if proven is None or best.missing:
        proven = _prove(world, meter)
    return SearchResult(float(min(proven, world.price)), float(proposed.greedy))


def _repair(world: PlanState, proposed: ProposedPlan, pods: int, meter: Meter, seed: int) -> ScoredPlan:
    """Return the best of the proposed plan and of those that the slower methods find; the state is left with it.

    ``pods`` is how many pods waited before anything was placed.
    """
    best = proposed.attempt
    if best.missing and proposed.exceeded is not None:
        best = _within_limits(world, best, *proposed.exceeded, meter=meter, seed=seed)
    doubtful = proposed.hopeful or bool(best.score[0])
    few = pods <= FEW_PODS and not meter.spent()
    ruled = any(not world.rules[group.index].free for group in world.groups.pending)
    expensive = proposed.proven is None or _loose(world) or (ruled and world.price > NOT_FAR * proposed.proven)
    if (doubtful and pods <= MOST_IN_TURN) or (few and expensive):
        clear_plan(world)
        frontier, known = OfferFrontier(world), compute_lower_bound(world)
        for attempt in _sequential(world, frontier, known, meter, complete=not doubtful):
            best = min(best, attempt, key=lambda one: one.score)
        restore_layout(world, best.layout)
        if best.missing and pods <= MANY_PODS:
            best = clear_blocked_domains(world, frontier, known.shares, best, meter)
    elif few and ruled:
        best = _improve(world, best, meter)
    return best


def _improve(world: PlanState, made: ScoredPlan, meter: Meter) -> ScoredPlan:
    """Improve the plan by local search: pods that conflicted with a neighbour may have left a node that is too large."""
    with emptied(world):
        frontier, known = OfferFrontier(world), compute_lower_bound(world)
    improve_plan(world, frontier, known.shares, meter)
    return keep_better(world, made)


def _loose(world: PlanState) -> bool:
    """Whether some spread allows more than the even deal that was made."""
    return any((rule := world.rules[group.index].quoted) and rule.spread.max_skew > 1 for group in world.groups.pending)


def _propose_and_realize(world: PlanState, meter: Meter, seed: int) -> ProposedPlan:
    """By arrays as far as they can express it; whoever is left is placed one after the other."""
    waiting = _waiting(world)
    everybody = sum(world.left[group] for group in waiting)
    _fill_standing(world, waiting)
    groups = [group for group in waiting if world.left[group]]
    worth = _sizes(world, groups)
    dealt = assign_domains(world, groups, worth)
    inside = expressible_groups(world, groups, dealt)
    proven: float | None = None
    exceeded: tuple[PackingProblem, DomainAssignment, LimitRows] | None = None
    price = 0.0
    if inside and any(market.launchable for market in world.markets):
        problem = compile_problem(world, dealt, inside, narrowed=world.narrow)
        demand = np.where(problem.open.any(axis=0), problem.demand, 0)
        everything = int(demand.sum()) == world.pods_left
        chance = SearchContext.of(problem, seed, meter)
        compiled = meter.seconds
        relaxation = solve_relaxation(problem, demand, chance)
        if meter.allowance:
            relaxation = tighten_relaxation(problem, demand, chance, relaxation)
        by_node = NODE_FOR_PODS * float(relaxation.nodes.sum()) / max(everybody, TELLING) if problem.items <= FEW_ITEMS else 0.0
        meter.keep_back(compiled * max(1 + everybody / CARRIED, by_node))
        toll = limit_rows_of(world, problem)
        exceeded = (problem, dealt, toll) if toll is not None and not is_within_limits(toll, relaxation) else None
        provable = int(demand.sum()) == everybody and _provable(world, problem, dealt, relaxation)
        if not provable and meter.allowance and FEW_PODS < int(demand.sum()) == world.pods_left and not world.existing:
            proven = compute_lower_bound(world, limited=True).price_per_hour  # for all of them: now, and not when the deadline is near
        packing, price = _best_packing(problem, demand, relaxation, chance)
        price = price if everything and not world.narrow else 0.0  # a greedy that leaves pods or rules aside is none to compare with
        carrier = _carried(world, problem, dealt, packing, meter)
        rest = np.where(problem.open.any(axis=0), carrier.left(), 0)
        if rest.any():
            carrier.carry_out(pack_greedily(problem, rest, floor_worth(problem, relaxation.worth), chance))
        carrier.finish()
        if provable:
            proven = max(relaxation.value * (1 - 1e-9), single_item_bound(world, problem))
            if problem.merged is None and problem.firm.all():  # what columns prove holds for these domains, and with all these rules
                proven = max(proven, chance.proven_for(demand))
    hopeful = False
    if any(world.left[group] for group in waiting):
        frontier = OfferFrontier(world)
        SequentialPlacer(world, frontier, _shares(world, worth), PlacementStrategy()).fill()
        hopeful = any(world.left[group] and any(fits(group, one.one.room) for one in frontier.of(group)) for group in waiting)
    return ProposedPlan(score_plan(world), price, proven, hopeful, exceeded)


def _within_limits(
    world: PlanState, before: ScoredPlan, problem: PackingProblem, dealt: DomainAssignment, toll: LimitRows, *, meter: Meter, seed: int
) -> ScoredPlan:
    """The better of this attempt and of one that makes the most of the limits; the world is left with it."""
    clear_plan(world)
    _fill_standing(world, _waiting(world))
    part, packing = pack_within_limits(problem, toll, seed, meter)
    carrier = PackingRealizer(world, part, dealt)
    carrier.carry_out(packing)
    carrier.finish()
    worth = _sizes(world, [group for group in world.groups.pending if world.left[group]])
    SequentialPlacer(world, OfferFrontier(world), _shares(world, worth), PlacementStrategy()).fill()
    return keep_better(world, before)


def _provable(world: PlanState, problem: PackingProblem, dealt: DomainAssignment, relaxation: Relaxation) -> bool:
    """Whether this relaxation is a bound for all plans that place its pods. To be asked before anything is opened: it looks at what is left
    of the limits."""
    within = is_within_limits(limit_rows_of(world, problem), relaxation)
    # who was dealt to a domain might be cheaper off in another, unless all domains offer the same
    everywhere = problem.merged is not None or not dealt.shares_of
    whole = everywhere and not world.existing and not world.narrow
    return whole and within and relaxation.firm and not problem.choices.has_supplies and problem.one_tier


def _carried(world: PlanState, problem: PackingProblem, dealt: DomainAssignment, packing: Packing, meter: Meter) -> PackingRealizer:
    """The proposal in the world. Which of many pods that look alike goes where is left open by it; if some clash with their neighbours
    and find no place, they may do so in another order, while there is time; the best of these is made again unless it was the last."""
    began = meter.seconds
    carrier = _carried_once(world, problem, dealt, packing, 0)
    once, missing = meter.seconds - began, [int(carrier.left().sum())]
    for order in range(1, ORDERS if problem.demand.sum() <= QUICKLY_CARRIED else 1):
        if not missing[-1]:
            return carrier
        if meter.overdue(THEN * once):
            break
        carrier = _carried_once(world, problem, dealt, packing, order)
        missing.append(int(carrier.left().sum()))
    best = missing.index(min(missing))
    return carrier if missing[-1] == missing[best] else _carried_once(world, problem, dealt, packing, best)


def _carried_once(world: PlanState, problem: PackingProblem, dealt: DomainAssignment, packing: Packing, order: int) -> PackingRealizer:
    for room in reversed(list(world.new)):
        world.close(room)
    carrier = PackingRealizer(world, problem, dealt, order)
    carrier.carry_out(packing)
    return carrier


def _best_packing(problem: PackingProblem, demand: Whole, relaxation: Relaxation, chance: SearchContext) -> tuple[Packing, float]:
    """The cheapest proposal, and what first-fit would pay where it was quick to find out."""
    packing = solve_packing(problem, demand, relaxation, chance)
    pods = int(demand.sum())
    if pods > (FEW_PODS if chance.meter.spent() else MANY_PODS):
        return packing, 0.0
    simple = pack_first_fit(problem, demand)
    return (simple if simple.price < packing.price - 1e-9 else packing), simple.price if simple.patterns else 0.0


def _sizes(world: PlanState, groups: list[PodGroup]) -> dict[PodGroup, float]:
    """About what a pod is worth before anybody has worked it out: cores, and memory at the usual four GiB a core."""
    rates = {CPU: 1e-3, MEMORY: 2.0**-32}
    by_position = [rates.get(name, 0.0) for name in world.groups.resources]
    return {group: 1e-6 + sum(map(float.__mul__, by_position, map(float, group.vector))) for group in groups}


def _waiting(world: PlanState) -> list[PodGroup]:
    """Groups with pods that need a place, and could have one."""
    return [group for group in world.groups.pending if world.left[group] and not group.refused]


def _shares(world: PlanState, worth: Mapping[PodGroup, float]) -> dict[int, float]:
    """What a pod is worth, by its group's index; nothing where nobody has worked it out."""
    return {group.index: worth.get(group, 0.0) for group in world.groups.pending}


def _fill_standing(world: PlanState, waiting: list[PodGroup]) -> None:
    """What stands is filled first: it is paid for."""
    if world.existing:
        worth = _sizes(world, waiting)
        SequentialPlacer.filling_only(world, _shares(world, worth)).fill_standing()


def _sequential(world: PlanState, frontier: OfferFrontier, known: LowerBound, meter: Meter, *, complete: bool) -> Iterator[ScoredPlan]:
    """What the simple ways make, one after the other."""
    for approach in _approaches(world, scarce=not complete):
        if approach.last_resort and complete:
            return
        if approach.dealt:
            shares = {index: min(share, 1e9) for index, share in known.shares.items()}
            assign_quotas(world, order_groups(world, shares, "worth"))
        SequentialPlacer(world, frontier, known.shares, approach).fill()
        world.quotas.clear()
        meter.spend(2.0)
        if not approach.dealt or keeps_all_rules(world):
            improve_plan(world, frontier, known.shares, meter)
            attempt = score_plan(world)
            complete = True  # whatever else is tried could only be cheaper, or place more: that is worth no more than the effort
            yield attempt
        clear_plan(world)
        if complete and meter.spent():
            return


def _approaches(world: PlanState, *, scarce: bool) -> Iterator[PlacementStrategy]:
    """The ways worth trying, the most promising first. Dealing pods out over zones can fail; not doing so cannot. ``scarce``: places may be
    taken by pods that could go elsewhere, so those with little choice go first as well."""
    spread = any(world.rules[one.index].quoted for one in world.left)
    many = world.pods_left > 4 * FEW_PODS
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


def _prove(world: PlanState, meter: Meter) -> float:
    """Return the lower bound ($/h) for the pods that this plan places. For a first plan, cuts are left out to save time."""
    missing = dict(world.left)
    with emptied(world):
        for one, number in missing.items():
            world.left[one] -= number
        proven = compute_lower_bound(world, limited=True, whole=meter.allowance > 0).price_per_hour
        for one, number in missing.items():
            world.left[one] += number
    return proven
