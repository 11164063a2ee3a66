"""New nodes of exotic types on which no pod asks for them: their pods get other nodes.

Pods that may not open a node of such an offer may join pods that may (``model/exotic_offers.py``). The search plans
both together, because the rest of a node with accelerators costs nothing more. If an offer is also the cheapest one for
the pods that may only join, as some spot offers are, the search opens nodes for them alone. These nodes are closed, and
the search plans their pods again on offers that they may open; all other nodes stay.
"""

from collections.abc import Callable

from joiner.planning.state.excluded_types import only_opened
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState


def replan_unrequested(state: PlanState, search: Callable[[PlanState], object]) -> bool:
    """Plan the pods of new nodes that none of them may open again; return whether there were any."""
    unrequested = [node for node in state.new if not _is_requested(node)]
    for node in unrequested:
        state.close(node)
    if unrequested:
        kept = state.keep_new_nodes()
        with only_opened(state):
            search(state)
        state.release_kept_nodes(kept)
    return bool(unrequested)


def _is_requested(node: NodeState) -> bool:
    choice = node.choice
    return choice is None or choice.variant.may_open((group.index for group in node.planned), choice.one)
