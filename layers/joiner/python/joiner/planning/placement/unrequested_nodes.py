"""New nodes of exotic types on which no pod asks for them: their pods get other nodes, as far as there are any.

Pods that may not open a node of such an offer may join pods that may (``model/exotic_offers.py``). The search plans
both together, because the rest of a node with accelerators costs nothing more. If an offer is also the cheapest one for
the pods that may only join, as some spot offers are, the search opens nodes for them alone. These nodes are closed, and
the search plans their pods again on offers that they may open; all other nodes stay. If that breaks a rule between
pods, or leaves pods without a place, all pods are planned on offers that they may open; and if that is worse, too, the
first plan stays.

Pods that have no place then may open every offer that their rules accept: a rule about zones, a limit, or the pods of
running nodes can close all common types to them.
"""

from collections.abc import Callable

from joiner.planning.state.checkpoint import ScoredPlan, clear_plan, restore_layout, score_plan
from joiner.planning.state.excluded_types import all_accepted, is_any_closed, only_opened
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

Search = Callable[[PlanState], object]


def replan_unrequested(state: PlanState, search: Search) -> bool:
    """Plan the pods of new nodes that none of them may open again; return whether there were any."""
    unrequested = [node for node in state.new if not _is_requested(node)]
    if not unrequested:
        return False
    before = score_plan(state)
    for node in unrequested:
        state.close(node)
    kept = state.keep_new_nodes()
    with only_opened(state):
        search(state)
    state.release_kept_nodes(kept)
    if _is_worse(state, before):
        clear_plan(state)
        with only_opened(state):
            search(state)
    if _is_worse(state, before):
        clear_plan(state)
        restore_layout(state, before.layout)
    return True


def place_on_every_offer(state: PlanState, search: Search) -> bool:
    """Plan the pods that are left on all offers that their rules accept; return whether that places any of them."""
    if not state.pods_left or not is_any_closed(state):
        return False
    before = score_plan(state)
    kept = state.keep_new_nodes()
    with all_accepted(state):
        search(state)
    state.release_kept_nodes(kept)
    if score_plan(state).score < before.score:
        return True
    clear_plan(state)
    restore_layout(state, before.layout)
    return False


def _is_worse(state: PlanState, before: ScoredPlan) -> bool:
    """Return whether the plan breaks a rule that the one before keeps, or leaves more pods or more important ones."""
    return score_plan(state).score[:-2] > before.score[:-2]


def _is_requested(node: NodeState) -> bool:
    choice = node.choice
    return choice is None or choice.variant.may_open((group.index for group in node.planned), choice.one)
