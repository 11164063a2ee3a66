"""``Planner``: one snapshot in, one plan out.

Builds the state, searches for the cheapest plan, applies preferences, and writes the plan with the reasons of pending
pods. Pure and deterministic: the same snapshot gives the same plan, whatever the order of its lists, and whatever the
planner has planned before.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.total_node_prices import NodePrices
from joiner.planning.effort import Effort, Meter
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import Unavailable
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.model.running_commitments import cover_running_nodes
from joiner.planning.model.usable_overlays import drop_conflicts
from joiner.planning.output.explanation import explain_pending
from joiner.planning.output.plan_problems import find_plan_problems
from joiner.planning.placement.address_limits import AddressLimits, keep_addresses, replan_within_addresses
from joiner.planning.placement.capacity_mix import keep_capacity_mix
from joiner.planning.placement.preferences import apply_preferences
from joiner.planning.placement.unrequested_nodes import place_on_every_offer, replan_unrequested
from joiner.planning.plan import Plan, Reason
from joiner.planning.plan_policies import DEFAULT_POLICIES, NO_CEILINGS, Ceilings, PlanPolicies, PlanTolerances
from joiner.planning.plan_simplification import UNCHANGED, Simplification
from joiner.planning.state.blocked_spreads import (
    explain_left_out,
    find_blocking_domains,
    needs_domains,
    offerings_of,
)
from joiner.planning.state.checkpoint import score_plan
from joiner.planning.state.commitment_use import CommitmentUse
from joiner.planning.state.excluded_types import all_accepted
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.plan_state_construction import build_state
from joiner.planning.tuning import TINY
from joiner.pools import ResolvedNodeClass

if TYPE_CHECKING:  # It needs numpy, which only the planning functions contain.
    from joiner.planning.search import SearchResult

SOME_EFFORT = Effort()
LEFT_FOR_TIME = (
    "the search ended at its deadline before the methods that place more pods: pods that are pending may have a place",
)


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's garbage collector for reference cycles. A plan creates no cycles and keeps its objects until
    the end; repeated collections take a quarter of the time of a large plan."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Planner:
    """Makes plans. It keeps the compiled offers of its last plans, so the next plan for the same pools is faster."""

    def __init__(self) -> None:
        self._cache = OfferCache()

    def state(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        unavailable: Collection[tuple[str, str, str]] = (),
        *,
        classes: Mapping[str, ResolvedNodeClass],
        ceilings: Ceilings = NO_CEILINGS,
        policies: PlanPolicies = DEFAULT_POLICIES,
    ) -> PlanState:
        """Return the state of the snapshot with no pod placed. The arguments are those of ``plan``."""
        return build_state(
            snapshot,
            catalogue,
            frozenset(unavailable),
            classes=classes,
            ceilings=ceilings,
            strict=not policies.best_effort,
            cache=self._cache,
        )

    def prices(
        self, snapshot: Snapshot, catalogue: Catalogue, *, classes: Mapping[str, ResolvedNodeClass]
    ) -> NodePrices:
        """Return the prices of running nodes, by the overlays that plans use for new ones."""
        used, _ = drop_conflicts(snapshot, catalogue, classes, self._cache)
        coverage = cover_running_nodes(snapshot, catalogue.commitments)
        return NodePrices(catalogue, {pool.key: pool for pool in used.pools}, classes, used.overlays, coverage)

    @uncollected()
    def plan(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        unavailable: Collection[tuple[str, str, str]] = (),
        *,
        classes: Mapping[str, ResolvedNodeClass],
        ceilings: Ceilings = NO_CEILINGS,
        policies: PlanPolicies = DEFAULT_POLICIES,
        effort: Effort = SOME_EFFORT,
        tolerances: PlanTolerances | None = None,
    ) -> Plan:
        """Return the plan for the pending pods of this snapshot.

        ``unavailable`` are unavailable offerings: (capacity type, instance type, zone), ``*`` for any. ``classes`` are
        the resolved node classes by key (``EC2NodeClass/default``). A pool whose class is missing or not ready is not
        used; the other pools are. ``policies`` are those of the settings for preferences and minValues.
        Requirements of pools that this catalogue cannot satisfy, and limits on resources that it does not have, are
        added to the problems of the snapshot. ``effort`` limits the search for a cheaper plan. ``tolerances`` let the
        plan cost a little more for fewer nodes and more zones; without them it stays as the search found it, with
        warnings about capacity mixes only.
        """
        # These modules need numpy and HiGHS, which only the planning functions contain.
        from joiner.planning.output.plan_assembly import write_plan
        from joiner.planning.output.plan_warnings import find_warnings

        meter = Meter(effort)
        build = partial(self.state, snapshot, classes=classes, ceilings=ceilings, policies=policies)
        prices = partial(self.prices, snapshot, catalogue, classes=classes)
        search = partial(_search, snapshot=snapshot, catalogue=catalogue, meter=meter, seed=effort.seed, prices=prices)
        rest = partial(_search_rest, meter=meter, seed=effort.seed)
        run = partial(_finish, search, rest, meter=meter, policies=policies, tolerances=tolerances, classes=classes)
        closed = frozenset(unavailable)
        state, finished, left_out = _search_beside_spreads(catalogue, closed, meter, build=build, run=run)
        found, addresses, searched = finished.found, finished.addresses, state.price
        mixes = keep_capacity_mix(state)  # last, for it counts the nodes of the finished plan
        zonal = addresses.moved > 0 or (tolerances is not None and _has_several_zones(state))
        reasons = _join_reasons(explain_pending(state, catalogue, snapshot.problems), left_out)
        reasons = _join_reasons(reasons, addresses.reasons)
        made = write_plan(state, snapshot, reasons, found.proven + state.made_price, zonal=zonal, classes=classes)
        late = LEFT_FOR_TIME if meter.gave_up and made.pending else ()
        return replace(
            made,
            greedy_price_per_hour=None if made.pending else _greedy_price(state, found, searched),
            cut_short=meter.cut_short,
            seconds=meter.seconds,
            problems=(*made.problems, *find_plan_problems(state, snapshot, catalogue)),
            simplified=finished.simplified,
            warnings=(*late, *mixes, *(find_warnings(state, made, snapshot, catalogue, classes) if tolerances else ())),
        )


@dataclass(frozen=True, slots=True)
class _Finished:
    """What the search found, what the simplification changed, and what became of nodes without an address."""

    found: "SearchResult"
    simplified: Simplification
    addresses: AddressLimits


def _finish(
    search: Callable[..., "SearchResult"],
    rest: Callable[[PlanState], object],
    state: PlanState,
    *,
    build: Callable[[Catalogue], PlanState],
    meter: Meter,
    policies: PlanPolicies,
    tolerances: PlanTolerances | None,
    classes: Mapping[str, ResolvedNodeClass],
) -> _Finished:
    """Leave the plan of the search in the state, simplified, and without the nodes that no subnet has an address for or
    that no pod asks for or needs. ``rest`` searches a plan for the pods that are left."""
    found = search(state, build=build)
    replanned = replan_unrequested(state, rest, meter.too_late)
    opened = place_on_every_offer(state, rest, meter.too_late)
    simplified = _simplify(state, policies, tolerances if meter.allowance else None)
    addresses = keep_addresses(state, classes)
    if addresses.closed and state.pods_left:
        addresses = replan_within_addresses(state, addresses, classes, rest)
    if replanned or opened:
        found = replace(found, greedy=None)
    if replanned or opened or addresses.closed:
        # A node that only the last resort may open is in the plan, so the bound has to allow such nodes, too.
        with all_accepted(state) if opened or addresses.exotic else nullcontext():
            found = replace(found, proven=_prove_without(state, meter))
    return _Finished(found, simplified, addresses)


def _search_beside_spreads(
    catalogue: Catalogue,
    unavailable: Unavailable,
    meter: Meter,
    *,
    build: Callable[..., PlanState],
    run: Callable[..., "_Finished"],
) -> tuple[PlanState, "_Finished", dict[PodGroup, tuple[Reason, ...]]]:
    """Return the best plan found, with the reasons of groups that a topology spread leaves out until the next plan.

    If nodes in some domains would keep pods with a spread pending, the plan is made without these domains first; then
    with them, if pods stay pending that a node there could hold. The plan that places more pods, higher priorities
    first, is used: ``run`` has closed the nodes for which subnets have no address.
    """
    everywhere = build(catalogue, unavailable=unavailable)
    blocking = find_blocking_domains(everywhere)
    if not blocking:
        return everywhere, run(everywhere, build=partial(build, unavailable=unavailable)), {}
    fewer = unavailable | offerings_of(blocking)
    state = build(catalogue, unavailable=fewer)
    found = run(state, build=partial(build, unavailable=fewer))
    left_out: dict[PodGroup, tuple[Reason, ...]] = {}
    if state.pods_left and needs_domains(state, everywhere, blocking):
        left_out = explain_left_out(state, everywhere, blocking)
        if meter.too_late():
            return state, found, left_out
        other = run(everywhere, build=partial(build, unavailable=unavailable))
        if score_plan(everywhere).score < score_plan(state).score:
            return everywhere, other, {}
    return state, found, left_out


def _search(
    state: PlanState,
    *,
    snapshot: Snapshot,
    catalogue: Catalogue,
    meter: Meter,
    seed: int,
    build: Callable[[Catalogue], PlanState],
    prices: Callable[[], NodePrices],
) -> "SearchResult":
    """Leave the best plan found in the state. ``build`` returns the state of the snapshot with another catalogue."""
    from joiner.planning.limited_offer_search import has_commitments, search_with_commitments, search_with_supplies

    if not catalogue.commitments or not has_commitments(state):
        return search_with_supplies(state, meter, seed)
    without = build(replace(catalogue, commitments=()))
    return search_with_commitments(state, without, CommitmentUse(snapshot, prices()), meter, seed)


def _search_rest(state: PlanState, *, meter: Meter, seed: int) -> None:
    """Place the pods that are left; reserved capacity is used, and commitments as the first search has left them."""
    from joiner.planning.limited_offer_search import search_with_supplies

    more = meter.renewed()
    search_with_supplies(state, more, seed)
    meter.cut_short |= more.cut_short
    meter.gave_up |= more.gave_up


def _has_several_zones(state: PlanState) -> bool:
    return len({node.labels.get(names.ZONE) for node in state.new}) > 1


def _prove_without(state: PlanState, meter: Meter) -> float:
    """Return the lower bound for the pods that the plan places, where it was changed after the search."""
    from joiner.planning.search import prove_plan

    return min(prove_plan(state, meter), state.price)


def _greedy_price(state: PlanState, found: "SearchResult", searched: float) -> float | None:
    """Return the price of the first-fit plan in $/h; None if there is none, or if a capacity mix, which first-fit does
    not know, has made the plan more expensive than the search, with the price ``searched``, left it."""
    mixed = state.price > searched + TINY
    return None if mixed or found.greedy is None else round(found.greedy + state.made_price, 10)


def _join_reasons(
    explained: Mapping[PodGroup, tuple[Reason, ...]], known: Mapping[PodGroup, tuple[Reason, ...]]
) -> dict[PodGroup, tuple[Reason, ...]]:
    """Return the reasons of pending pods. Those of ``known`` replace what else excludes pods from their pools."""
    joined = dict(explained)
    for group, own in known.items():
        pools = {reason.pool for reason in own}
        joined[group] = (*own, *(reason for reason in explained.get(group, ()) if reason.pool not in pools))
    return joined


def _simplify(state: PlanState, policies: PlanPolicies, tolerances: PlanTolerances | None) -> Simplification:
    """Leave fewer nodes in more zones within the tolerances, and between these two steps apply the preferences."""
    from joiner.planning.placement.simplification import simplify_nodes, spread_nodes

    before = simplify_nodes(state, tolerances.fewer_nodes) if tolerances else None
    if policies.preferences:
        apply_preferences(state)
    return spread_nodes(state, tolerances.zones, before) if tolerances and before else UNCHANGED


def plan(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    ceilings: Ceilings = NO_CEILINGS,
    policies: PlanPolicies = DEFAULT_POLICIES,
    effort: Effort = SOME_EFFORT,
    tolerances: PlanTolerances | None = None,
) -> Plan:
    """Return one plan, by a planner of its own. The arguments are those of ``Planner.plan``."""
    return Planner().plan(
        snapshot,
        catalogue,
        unavailable,
        classes=classes,
        ceilings=ceilings,
        policies=policies,
        effort=effort,
        tolerances=tolerances,
    )
