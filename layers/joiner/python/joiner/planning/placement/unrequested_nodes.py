"""New nodes of exotic types on which no pod asks for them: their pods get other nodes, as far as there are any.

Pods that may not open a node of such an offer may join pods that may (``model/exotic_offers.py``). The search plans
both together, because the rest of a node with accelerators costs nothing more. If an offer is also the cheapest one for
the pods that may only join, as some spot offers are, the search opens nodes for them alone. These nodes are closed, and
the search plans their pods again on offers that they may open; all other nodes stay. If that breaks a rule between
pods, or leaves pods without a place, all pods are planned on offers that they may open. If that is worse, too, as few
pods as possible keep such nodes (``placement/fewest_moved_pods.py``).

Pods that have no place then may open every offer that their rules accept: a rule about zones, a limit, or the pods of
running nodes can close all common types to them. The other nodes stay. If pods are left even so, all pods are planned
on all offers: a limit may allow few nodes, which have to be large. For many pods, that is worth the search only if the
number of nodes is limited. Of such a plan only what the pods that are left need is used: the other pods keep their
nodes.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from joiner.planning.model.node_offers import PoolOffers
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.fewest_moved_pods import Search, is_requested, move_fewest_pods, usual_variant
from joiner.planning.placement.node_exchange import NodeExchange
from joiner.planning.state.checkpoint import ScoredPlan, clear_plan, emptied, restore_layout, score_plan
from joiner.planning.state.excluded_types import all_accepted, find_closed_pools, only_opened
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import MOST_REPAIRED_PODS

TooLate = Callable[[], bool]


def never() -> bool:
    """Return False: a search without a deadline is never too late."""
    return False


def replan_unrequested(state: PlanState, search: Search, too_late: TooLate = never) -> bool:
    """Plan the pods of new nodes that none of them may open again; return whether there were any. If the other nodes
    have no place for all of them and it is ``too_late`` for further searches, the plan stays as it was."""
    unrequested = [node for node in state.new if not is_requested(node, node.planned)]
    if not unrequested:
        return False
    before = score_plan(state)
    for node in unrequested:
        state.close(node)
    kept = state.keep_new_nodes()
    with only_opened(state):
        search(state)
    state.release_kept_nodes(kept)
    if _is_worse(state, before) and too_late():
        clear_plan(state)
        restore_layout(state, before.layout)
        return False
    if _is_worse(state, before):
        clear_plan(state)
        with only_opened(state):
            search(state)
    if _is_worse(state, before):
        move_fewest_pods(state, search, score_plan(state), before)
    return True


def place_on_every_offer(state: PlanState, search: Search, too_late: TooLate = never) -> bool:
    """Plan the pods that are left on all offers that their rules accept; return whether that places more of them. All
    pods are planned again for those that are left then, unless it is ``too_late``."""
    if not state.pods_left:
        return False
    before = best = score_plan(state)

    def widely(state: PlanState) -> None:
        with all_accepted(state):
            search(state)

    if find_closed_pools(state, _left(state)):
        kept = state.keep_new_nodes()
        widely(state)
        state.release_kept_nodes(kept)
        best = _keep_more(state, before)
    if best.missing and not too_late() and (closed := _find_pools_for_larger_nodes(state)):
        clear_plan(state)
        widely(state)
        best = _keep_more(state, first := best)
        if best is not first:
            move_fewest_pods(state, search, before, best, widely=widely, first=closed)
    _restrict_requested(state)
    return best is not before


def _left(state: PlanState) -> list[PodGroup]:
    return [group for group, number in state.left.items() if number]


def _find_pools_for_larger_nodes(state: PlanState) -> list[PoolOffers]:
    """Return the pools with offers that are closed to pods that are left, and of which limits would allow a node
    without this plan; none if there are many pods, and the number of nodes is not limited."""
    pods = state.pods_left + sum(sum(node.planned.values()) for node in state.new)
    few, left = pods <= MOST_REPAIRED_PODS, _left(state)
    if not few and not _is_number_limited(state, state.offered_pools):
        return []
    with emptied(state):
        closed = find_closed_pools(state, left)
    return closed if few or _is_number_limited(state, closed) else []


def _is_number_limited(state: PlanState, pools: Iterable[PoolOffers]) -> bool:
    return state.limits.allows_no_more_nodes((one.pool for one in pools), state.new)


def _keep_more(state: PlanState, before: ScoredPlan) -> ScoredPlan:
    """Leave the plan that places more pods, or more important ones, in the state; return it."""
    made = score_plan(state)
    if made.places_more_than(before):
        return made
    clear_plan(state)
    restore_layout(state, before.layout)
    return before


def _restrict_requested(state: PlanState) -> None:
    """Let new nodes that their pods may open without the last resort have no other alternatives either."""
    exchange = NodeExchange(state)
    for node in list(state.new):
        choice = node.choice
        if choice is None or choice.variant in choice.pool_offers.variants:
            continue
        usual = usual_variant(choice)
        if usual.common_to(group.index for group in node.planned) >> choice.one.index & 1:
            exchange.replace([node], replace(choice, variant=usual).with_offer(choice.one))


def _is_worse(state: PlanState, before: ScoredPlan) -> bool:
    """Return whether the plan breaks a rule that the one before keeps, or leaves more pods or more important ones."""
    return before.places_more_than(score_plan(state))
