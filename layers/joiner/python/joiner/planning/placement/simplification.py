"""The last step of planning: fewer and larger nodes, fewer types, more zones, within the tolerances."""

from joiner.planning.placement.node_merging import merge_nodes
from joiner.planning.placement.zone_spreading import spread_over_zones
from joiner.planning.plan import Simplification
from joiner.planning.state.plan_state import PlanState


def simplify_nodes(state: PlanState, fewer_nodes: float) -> tuple[int, int, float]:
    """Merge nodes; return the number of nodes and types, and the price, before."""
    before = (len(state.new), _types(state), state.price)
    merge_nodes(state, fewer_nodes)
    return before


def spread_nodes(state: PlanState, share: float, before: tuple[int, int, float]) -> Simplification:
    """Spread the nodes over zones; return everything that changed since ``before``."""
    moved = spread_over_zones(state, share)
    nodes, types, price = before
    return Simplification(nodes - len(state.new), types - _types(state), moved, round(state.price - price, 10))


def _types(state: PlanState) -> int:
    return len({node.choice.one.model.name for node in state.new if node.choice})
