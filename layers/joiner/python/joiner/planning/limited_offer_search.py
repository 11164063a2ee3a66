"""Search with limited supplies: reservations and commitments that suffice for so many nodes.

The arrays of the search have offers without a limit only. Where limited offers exist, a second plan is made: nodes of
limited offers are filled first, one pod after the other, and kept if their pods would cost more on other nodes; then
the search places the remaining pods. The better of both plans is used.

AWS applies commitments to every instance that matches. A plan that ignores them is therefore made first, with the whole
effort. If it leaves commitments unused, the second plan is made, too, and the one that adds less to the bill is used.
"""

from joiner.planning.effort import Meter
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.lower_bound import compute_lower_bound
from joiner.planning.search import SearchResult, prove_plan, search
from joiner.planning.state.checkpoint import clear_plan, copy_plan, keep_better, restore_layout, score_plan
from joiner.planning.state.commitment_use import CommitmentUse
from joiner.planning.state.plan_state import PlanState


class SupplyFrontier(OfferFrontier):
    """The limited offers that each group may use: those of its pools with the highest weight."""

    def by_weight(self, group: PodGroup) -> list[list[OfferChoice]]:
        """Return the limited choices of one group in its pools with the highest weight."""
        limited = [[one for one in tier if one.one.supply is not None] for tier in super().by_weight(group)[:1]]
        return [tier for tier in limited if tier]


def search_with_supplies(state: PlanState, meter: Meter, seed: int) -> SearchResult:
    """Leave the best plan found in the state, as ``search`` does."""
    found = search(state, meter, seed)
    if not has_supply(state):
        return found
    before = score_plan(state)
    clear_plan(state)
    _search_supplies_first(state, meter, seed)
    after = keep_better(state, before)
    if after is before:
        return found
    proven = prove_plan(state, meter) if after.missing or before.missing else found.proven
    return SearchResult(min(proven, state.price), found.greedy)


def search_with_commitments(
    state: PlanState, without: PlanState, use: CommitmentUse, meter: Meter, seed: int
) -> SearchResult:
    """Leave the plan that adds least to the bill in the state, of one that ignores commitments and one that fills them
    first. ``without`` is the state of the same snapshot without commitments.

    If the first plan uses up all commitments, no second one is made.
    """
    if len(without.existing) != len(state.existing):  # A ceiling allows fewer nodes of static pools at list prices.
        return search_with_supplies(state, meter, seed)
    found = search_with_supplies(without, meter, seed)
    copy_plan(without, state)
    use.settle(state)
    before = score_plan(state, use.bill(state))
    if before.missing or _is_supply_left(state):
        clear_plan(state)
        _search_supplies_first(state, meter, seed)
        use.settle(state)
        # A node that the search has paid by a commitment may now have its list price, above a ceiling of the cluster.
        if _exceeds_ceilings(state) or score_plan(state, use.bill(state)).score >= before.score:
            clear_plan(state)
            restore_layout(state, before.layout)
    return SearchResult(min(prove_plan(state, meter), state.price), found.greedy)


def _exceeds_ceilings(state: PlanState) -> bool:
    nodes, price = state.left_of_ceilings
    return (nodes is not None and nodes < 0) or (price is not None and price < -1e-9)


def _search_supplies_first(state: PlanState, meter: Meter, seed: int) -> None:
    """Fill nodes of limited offers, and then search for the remaining pods."""
    use_supplies(state)
    kept = state.keep_new_nodes()
    search(state, meter, seed)
    state.release_kept_nodes(kept)


def has_supply(state: PlanState) -> bool:
    """Return whether a limited offer has something left before this plan."""
    with_supply = (one for pool in state.offered_pools for one in pool.launchable if one.supply is not None)
    planned = {node.choice.one.supply_key for node in state.new if node.choice}
    return any(state.limits.nodes_left(one) > 0 or one.supply_key in planned for one in with_supply)


def has_commitments(state: PlanState) -> bool:
    """Return whether a commitment applies to an offer of a pool."""
    return any(one.offering.commitment for pool in state.offered_pools for one in pool.launchable)


def _is_supply_left(state: PlanState) -> bool:
    """Return whether a limited offer has something left beside this plan."""
    with_supply = (one for pool in state.offered_pools for one in pool.launchable if one.supply is not None)
    return any(state.limits.nodes_left(one) > 0 for one in with_supply)


def use_supplies(state: PlanState) -> None:
    """Fill nodes of limited offers, and close those whose pods are worth less than the node costs."""
    known = compute_lower_bound(state, supplied=False)
    placer = SequentialPlacer(state, SupplyFrontier.find(state), known.shares, PlacementStrategy())
    placer.fill()
    for node in reversed(list(state.new)):
        worth = sum(number * placer.shares[group.index] for group, number in node.planned.items())
        if worth <= node.price:
            state.close(node)
