"""Search for the cheapest plan: propose, realize, repair, prove.

A proposal comes from arrays (``packing``), and each of its pods is placed by the scheduler's rules (``placement``).
Small plans, and plans that leave pods out, are also made by the slower methods. A plan is better if it places more
pods, higher priorities first; then if it is cheaper; then if it has fewer nodes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from joiner.planning.array_plan import ArrayPlan, plan_with_arrays
from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.packing.limited_packing import pack_within_limits
from joiner.planning.packing.search_context import SearchContext
from joiner.planning.packing.whole_node_bound import NOTHING_PROVEN, WholeNodeBound, prove_lower_bound
from joiner.planning.placement.domain_repair import clear_blocked_domains
from joiner.planning.placement.first_fit_plan import FirstFit, accepts_every_packing
from joiner.planning.placement.group_order import estimate_sizes, order_groups
from joiner.planning.placement.local_search import improve_plan
from joiner.planning.placement.pending_repair import place_pending
from joiner.planning.placement.realize_packing import PackingRealizer, expressible_groups
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
from joiner.planning.plan import OPTIMAL_GAP
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.lower_bound import LowerBound, compute_lower_bound
from joiner.planning.relaxation.lp_values import LimitRows
from joiner.planning.relaxation.packing_problem import PackingProblem, compile_problem
from joiner.planning.state.checkpoint import ScoredPlan, clear_plan, emptied, keep_better, restore_layout, score_plan
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.domain_assignment import DomainAssignment, assign_domains, assign_quotas
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import (
    FEW_PODS,
    MOST_REPAIRED_PODS,
    MOST_SEQUENTIAL_PODS,
    SHARE_OF_FIRST_PROOF,
    SMALL_GAP,
)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The properties of the plan in the state: the lower bound for the pods that it places, and the price of the
    first-fit plan (None if it was not made, or is no valid plan)."""

    proven: float
    greedy: float | None


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """The plan made with arrays. ``proven`` is a lower bound if all pods are placed. ``improvable`` is whether pods are
    left that some offer could hold. ``exceeded`` are the limits that exclude pods, and the problem to which these
    limits apply. ``seconds`` is how long realizing took."""

    attempt: ScoredPlan
    greedy: FirstFit | None
    proven: float | None
    improvable: bool
    exceeded: tuple[PackingProblem, DomainAssignment, LimitRows] | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ProvenScore:
    """What is proven of all plans that place all pods: the lower bound of the relaxation, in $/h, and of whole nodes.

    A search ends at a plan that keeps all rules and places all pods if no plan is better: there is none of a lower
    price, nor one of this price with fewer nodes.
    """

    relaxed: float = 0.0
    whole: WholeNodeBound = NOTHING_PROVEN

    @property
    def price(self) -> float:
        """The price, in $/h, that is proven to be the lowest if a plan has it."""
        return max(self.relaxed, self.whole.price) * (1 + OPTIMAL_GAP)

    def is_reached(self, plan: ScoredPlan) -> bool:
        """Return whether no plan is better than this one."""
        if plan.score[0] or plan.missing:
            return False
        alone = plan.nodes <= 1 and plan.price <= self.price
        return alone or self.whole.is_reached(plan.price, plan.nodes)


def search(state: PlanState, meter: Meter, seed: int) -> SearchResult:
    """Leave the best plan found in the state, as `_search` does. Pods that only a later plan can place are set aside:
    the methods that place more pods, and the proof of a plan without some, take longest where there are many values."""
    aside = {group: state.left[group] for group in _find_later_groups(state)}
    for group in aside:
        state.left[group] = 0
    try:
        return _search(state, meter, seed)
    finally:
        for group, number in aside.items():
            state.left[group] += number


def _find_later_groups(state: PlanState) -> list[PodGroup]:
    """Return the groups for whose values of open labels this plan has no offers, and that no existing node suits."""
    waiting = {group for pool_offers in state.offered_pools for group in pool_offers.waiting}
    return [
        group
        for group, number in state.left.items()
        if number
        and group.index in waiting
        and not state.offers(group)
        and not any(state.suits(group, node) for node in state.existing)
    ]


def _search(state: PlanState, meter: Meter, seed: int) -> SearchResult:
    """Leave the best plan found in the state: propose, realize, repair, prove.

    ``propose_and_realize`` packs arrays and places the packing by every rule. ``improve_proposed`` makes the plans of
    the other methods, until one is proven to be optimal. ``prove_plan`` computes the lower bound for the pods that the
    plan places, and ``_prove_exactly`` that of a small plan.
    """
    pods = state.pods_left
    if not pods:
        return SearchResult(0.0, None)
    proposed = propose_and_realize(state, meter, seed)
    enough = _prove_beforehand(state, proposed, pods, meter)
    best, greedy = improve_proposed(state, proposed, pods, meter, seed, enough=enough)
    proven, whole = proposed.proven, enough.whole
    if proven is None or best.missing:
        proven = prove_plan(state, meter)
    if best.missing:  # What was proven beforehand is that of other pods.
        whole = NOTHING_PROVEN
    proven = max(proven, whole.price)
    if meter.allowance and not whole.complete and state.price > proven * (1 + OPTIMAL_GAP):
        proven = max(proven, _prove_exactly(state, meter).price)
    return SearchResult(float(min(proven, state.price)), greedy)


def improve_proposed(
    state: PlanState, proposed: ProposedPlan, pods: int, meter: Meter, seed: int, *, enough: ProvenScore
) -> tuple[ScoredPlan, float | None]:
    """Leave the best of the proposed plan, those of the slower methods and the first-fit plan in the state; return it,
    and the price of the first-fit plan (None if it was not made, or is no valid plan).

    ``pods`` is the number of pending pods before the first one was placed. The slower methods end at a plan that
    reaches ``enough``.
    """
    best = _repair(state, proposed, pods, meter, seed, enough=enough)
    return _compare_with_first_fit(state, proposed, best, meter)


def _prove_beforehand(state: PlanState, proposed: ProposedPlan, pods: int, meter: Meter) -> ProvenScore:
    """Return what is proven of a first plan of all pods before the slower methods, so that they can end at it. The
    bound of whole nodes is proven only if they would run, and within a part of the effort."""
    first, known = proposed.attempt, ProvenScore(proposed.proven or 0.0)
    slower = first.score[0] or (pods <= FEW_PODS and (_is_ruled(state) or _is_expensive(state, proposed)))
    if not meter.allowance or first.missing or known.is_reached(first) or not slower:
        return known
    return ProvenScore(known.relaxed, _prove_exactly(state, meter, nodes=first.nodes, share=SHARE_OF_FIRST_PROOF))


def _compare_with_first_fit(
    state: PlanState, proposed: ProposedPlan, best: ScoredPlan, meter: Meter
) -> tuple[ScoredPlan, float | None]:
    """Return the better one of the plan and the first-fit plan, and leave the state with it; and the price of the
    first-fit plan.

    There is no such price if first-fit exceeds a limit, breaks a rule between pods, or leaves pods, or if the time
    does not suffice to find that out.
    """
    first = proposed.greedy
    if first is None:
        return best, None
    if not best.missing and not first.packing.is_better_than(state.price, best.nodes) and accepts_every_packing(state):
        return best, first.price_per_hour
    if meter.time_left < proposed.seconds:
        return best, None
    clear_plan(state)
    fill_existing_nodes(state, _waiting(state))
    _, valid = first.realize(state)
    return keep_better(state, best), first.price_per_hour if valid else None


def _repair(
    state: PlanState, proposed: ProposedPlan, pods: int, meter: Meter, seed: int, *, enough: ProvenScore
) -> ScoredPlan:
    """Return the best of the proposed plan and of the plans that the slower methods find; leave the state with it. The
    arguments are those of ``improve_proposed``. Where a plan breaks a rule or leaves pods, they begin also some time
    after the deadline, but not later."""
    best = proposed.attempt
    if best.missing and proposed.exceeded is not None and not meter.too_late():
        best = _within_limits(state, best, *proposed.exceeded, meter=meter, seed=seed)
    doubtful, first = proposed.improvable or bool(best.score[0]), best
    few = pods <= FEW_PODS and not enough.is_reached(best) and not meter.spent()
    doubtful = doubtful and pods <= MOST_SEQUENTIAL_PODS and not meter.too_late()
    if doubtful or (few and _is_expensive(state, proposed)):
        clear_plan(state)
        frontier, known = OfferFrontier.find(state), compute_lower_bound(state)
        for attempt in _sequential(state, frontier, known, meter, complete=not doubtful, least=enough.price):
            best = min(best, attempt, key=lambda one: one.score)
            if enough.is_reached(best):
                break
        clear_plan(state)
        restore_layout(state, best.layout)
        if best is first and best.missing and pods <= MOST_REPAIRED_PODS:
            improve_plan(state, frontier, known.shares, meter)
            best = keep_better(state, best)
        if best.missing and pods <= MOST_REPAIRED_PODS:
            best = clear_blocked_domains(state, frontier, known.shares, best, meter)
    elif few and _is_ruled(state) and best.price > enough.price:
        best = _improve(state, best, meter)
    if best.missing and pods <= MOST_SEQUENTIAL_PODS and not meter.too_late():
        best = _place_pending(state, best, meter, seed)
    return best


def _is_ruled(state: PlanState) -> bool:
    """Return whether a pending pod has rules about other pods."""
    return any(not state.rules[group.index].free for group in state.groups.pending)


def _is_expensive(state: PlanState, proposed: ProposedPlan) -> bool:
    """Return whether sequential placement may find a cheaper plan than the one in the state."""
    if proposed.proven is None or _loose(state):
        return True
    return _is_ruled(state) and state.price > SMALL_GAP * proposed.proven


def _place_pending(state: PlanState, made: ScoredPlan, meter: Meter, seed: int) -> ScoredPlan:
    """Place more of the pending pods, knowing which pods the plan could not place."""
    with emptied(state):
        frontier, known = OfferFrontier.find(state), compute_lower_bound(state)
    return place_pending(state, frontier, known.shares, made, meter, seed=seed)


def _improve(state: PlanState, made: ScoredPlan, meter: Meter) -> ScoredPlan:
    """Improve the plan by local search: pods that conflict with another pod can leave a node that is too large."""
    with emptied(state):
        frontier, known = OfferFrontier.find(state), compute_lower_bound(state)
    improve_plan(state, frontier, known.shares, meter)
    return keep_better(state, made)


def _loose(state: PlanState) -> bool:
    """Return whether some spread allows more skew than the even assignment uses."""
    return any(
        (rule := state.rules[group.index].assigned_spread) and rule.spread.max_skew > 1
        for group in state.groups.pending
    )


def propose_and_realize(state: PlanState, meter: Meter, seed: int) -> ProposedPlan:
    """Place pods with arrays as far as arrays can express their rules; place the remaining pods one after the other."""
    waiting = _waiting(state)
    total = sum(state.left[group] for group in waiting)
    fill_existing_nodes(state, waiting)
    groups = [group for group in waiting if state.left[group]]
    worth = estimate_sizes(state, groups)
    assignment = assign_domains(state, groups, worth)
    inside = expressible_groups(state, groups, assignment)
    made = ArrayPlan(began=meter.seconds)
    if inside and any(pool_offers.launchable for pool_offers in state.offered_pools):
        problem = compile_problem(state, assignment, inside, narrowed=state.narrow)
        made = plan_with_arrays(state, problem, assignment, total, SearchContext.of(problem, seed, meter))
    improvable = False
    if any(state.left[group] for group in waiting):
        frontier = OfferFrontier.find(state)
        SequentialPlacer(state, frontier, _shares(state, worth), PlacementStrategy()).fill()
        improvable = any(
            state.left[group] and any(fits(group, one.one.free) for one in frontier.of(group)) for group in waiting
        )
    return ProposedPlan(
        score_plan(state), made.greedy, made.proven, improvable, made.exceeded, meter.seconds - made.began
    )


def _within_limits(
    state: PlanState,
    before: ScoredPlan,
    problem: PackingProblem,
    assignment: DomainAssignment,
    limit_rows: LimitRows,
    *,
    meter: Meter,
    seed: int,
) -> ScoredPlan:
    """Compare this attempt with one that makes the best use of the limits; leave the better one in the state and
    return it."""
    clear_plan(state)
    fill_existing_nodes(state, _waiting(state))
    part, packing = pack_within_limits(problem, limit_rows, seed, meter)
    realizer = PackingRealizer(state, part, assignment)
    realizer.realize(packing)
    realizer.finish()
    worth = estimate_sizes(state, [group for group in state.groups.pending if state.left[group]])
    SequentialPlacer(state, OfferFrontier.find(state), _shares(state, worth), PlacementStrategy()).fill()
    return keep_better(state, before)


def _waiting(state: PlanState) -> list[PodGroup]:
    """Return the groups with pods that need a node and that some node could hold."""
    return [group for group in state.groups.pending if state.left[group] and not group.refused]


def _shares(state: PlanState, worth: Mapping[PodGroup, float]) -> dict[int, float]:
    """Return the worth of a pod by its group's index; groups without a known worth are left out."""
    return {group.index: worth.get(group, 0.0) for group in state.groups.pending}


def fill_existing_nodes(state: PlanState, waiting: list[PodGroup]) -> None:
    """Fill existing nodes first: they are already paid for."""
    if state.existing:
        worth = estimate_sizes(state, waiting)
        SequentialPlacer.filling_only(state, _shares(state, worth)).fill_existing_nodes()


def _sequential(
    state: PlanState, frontier: OfferFrontier, known: LowerBound, meter: Meter, *, complete: bool, least: float
) -> Iterator[ScoredPlan]:
    """Yield the plans that the simple strategies make, one after the other. No plan of all pods is cheaper than
    ``least``."""
    for approach in _approaches(state, scarce=not complete):
        if approach.last_resort and complete:
            return
        if approach.assigned:
            shares = {index: min(share, 1e9) for index, share in known.shares.items()}
            assign_quotas(state, order_groups(state, shares, "worth"))
        SequentialPlacer(state, frontier, known.shares, approach).fill()
        state.quotas.clear()
        meter.spend(2.0)
        if not approach.assigned or keeps_all_rules(state):
            improve_plan(state, frontier, known.shares, meter, least=least)
            attempt = score_plan(state)
            # Further attempts could only be cheaper or place more pods; that justifies no more than the effort.
            complete = True
            yield attempt
        clear_plan(state)
        if complete and meter.spent():
            return


def _approaches(state: PlanState, *, scarce: bool) -> Iterator[PlacementStrategy]:
    """Yield the strategies to try, the most promising first. Assigning pods to zones beforehand can fail; placing them
    without it cannot.

    ``scarce`` also yields strategies that place the groups with the fewest offers first, because other pods may use
    capacity that only these groups need.
    """
    spread = any(state.rules[one.index].assigned_spread for one in state.left)
    many = state.pods_left > 4 * FEW_PODS
    ways = [("worth", None), *([("scarce", None)] if scarce else []), ("cpu", 32_000 if many else None)]
    if not many:
        ways += [("memory", None), *(("worth", largest) for largest in (64_000, 32_000, 16_000, 8_000, 4_000, 2_000))]
    for order, largest in ways:
        if spread:
            yield PlacementStrategy(order, largest, assigned=True)
        if not (spread and many):
            yield PlacementStrategy(order, largest)
    if not many:
        yield PlacementStrategy(sharing=False)
    if spread and many:
        yield PlacementStrategy(last_resort=True)


def prove_plan(state: PlanState, meter: Meter) -> float:
    """Return the lower bound ($/h) for the pods that this plan places. Cuts are left out for a first plan, to save
    time."""
    with _left_to_place_again(state):
        return compute_lower_bound(state, limited=True, whole=meter.allowance > 0).price_per_hour


def _prove_exactly(state: PlanState, meter: Meter, *, nodes: int = 0, share: float = 1.0) -> WholeNodeBound:
    """Return the bound of whole nodes for the pods that this plan places (see ``prove_lower_bound``)."""
    price = state.price
    with _left_to_place_again(state):
        return prove_lower_bound(state, price, meter, nodes=nodes, share=share)


@contextmanager
def _left_to_place_again(state: PlanState) -> Iterator[None]:
    """Empty the state, with only the pods of the plan left to place, and restore the plan at the end."""
    missing = dict(state.left)
    with emptied(state):
        for one, number in missing.items():
            state.left[one] -= number
        try:
            yield
        finally:
            for one, number in missing.items():
                state.left[one] += number
