"""The last step of planning, within the tolerances: fewer nodes and types, more zones, and workloads over nodes."""

from joiner.planning.placement.node_merging import merge_nodes
from joiner.planning.placement.workload_spreading import spread_workloads
from joiner.planning.placement.zone_division import divide_among_zones
from joiner.planning.placement.zone_repacking import repack_among_zones
from joiner.planning.placement.zone_spreading import spread_over_zones
from joiner.planning.plan_simplification import Simplification
from joiner.planning.state.plan_state import PlanState


def simplify_nodes(state: PlanState, fewer_nodes: float) -> tuple[int, int, float]:
    """Merge nodes; return the number of nodes and types, and the price, before."""
    before = (len(state.new), _types(state), state.price)
    merge_nodes(state, fewer_nodes)
    return before


def spread_nodes(state: PlanState, share: float, before: tuple[int, int, float]) -> Simplification:
    """Spread the nodes over zones, and the pods over nodes; return everything that changed since ``before``. Nodes are
    divided only where exchanges of pods, which cost nothing, leave too many in a zone."""
    most = state.price * (1 + share)
    moved, pods = spread_over_zones(state, most), spread_workloads(state)
    if divided := divide_among_zones(state, most) + repack_among_zones(state, most):
        moved, pods = moved + divided, pods + spread_workloads(state)
    nodes, types, price = before
    return Simplification(nodes - len(state.new), types - _types(state), moved, round(state.price - price, 10), pods)


def _types(state: PlanState) -> int:
    return len({node.choice.one.model.name for node in state.new if node.choice})
