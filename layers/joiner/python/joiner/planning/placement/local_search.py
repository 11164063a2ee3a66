"""Improve a small plan: two or three nodes at a time are emptied and filled again, if that is cheaper."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.exhaustive_partition import repartition_pods
from joiner.planning.placement.free_capacity_use import use_free_capacity
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import Layout, count_missing, layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import (
    MOST_LOCAL_SEARCH_NODES,
    MOST_LOCAL_SEARCH_PODS,
    MOST_PARTITION_NODES,
    MOST_PARTITION_PODS,
)

ROUNDS = 4
A_TRIAL = 0.03
"""The effort of one node that is filled on trial, in steps."""


def improve_plan(
    state: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], meter: Meter, *, least: float = 0.0
) -> None:
    """Make the plan in this state cheaper where possible, until the effort is used up, or until it has the price
    ``least``, below which there is no plan of all pods.

    The plan becomes more expensive only if more pods are placed. It never places fewer pods.
    """
    _exchange_nodes(state, frontier, shares, meter, least)
    if state.pods_left:  # The change may allow pods that are still pending.
        SequentialPlacer(state, frontier, shares, PlacementStrategy()).fill()


def _exchange_nodes(
    state: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], meter: Meter, least: float
) -> None:
    if not state.pods_left and state.price <= least:
        return
    stranded = [
        group
        for group, number in state.left.items()
        if number and frontier.of(group)
        for _ in range(state.rules[group.index].most(number))
    ]
    if sum(sum(node.planned.values()) for node in state.new) + len(stranded) <= MOST_PARTITION_PODS and _within(meter):
        repartition_pods(state, frontier, tuple(state.new), meter, stranded)
    for _ in range(ROUNDS):
        if (
            not state.new
            or (not state.pods_left and state.price <= least)
            or len(state.new) > MOST_LOCAL_SEARCH_NODES
            or sum(number for node in state.new for number in node.planned.values()) > MOST_LOCAL_SEARCH_PODS
        ):
            return
        freed = use_free_capacity(state, frontier, meter)
        some = [nodes for size in (1, 2, 3) for nodes in combinations(tuple(state.new), size)]
        better = len(state.new) <= MOST_PARTITION_NODES and any(
            _within(meter) and repartition_pods(state, frontier, nodes, meter) for nodes in some
        )
        if not (freed or better) and not any(
            _within(meter) and _rebuild(state, frontier, shares, nodes, meter) for nodes in some
        ):
            return


def _within(meter: Meter) -> bool:
    meter.spend(0.4)
    return not meter.spent()


def _rebuild(
    state: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], nodes: Sequence[NodeState], meter: Meter
) -> bool:
    """Replace these nodes by cheaper ones if possible; return whether that succeeded."""
    before, left, opened = state.price, count_missing(state), state.opened
    kept, others = layout_of(nodes), layout_of(node for node in (*state.existing, *state.new) if node not in nodes)
    for node in nodes:
        state.close(node)
    for order in ("worth", "cpu"):
        SequentialPlacer(state, frontier, shares, PlacementStrategy(order), under=before).fill()
        meter.spend(A_TRIAL * (state.opened - opened))
        opened = state.opened
        if count_missing(state) <= left and state.price < before - 1e-9 and keeps_all_rules(state):
            return True
        _reset(state, others)
    restore_layout(state, kept)
    return False


def _reset(state: PlanState, nodes: Layout) -> None:
    """Restore these nodes with these pods on them."""
    known = dict(nodes)
    for node in [one for one in state.new if one not in known]:
        state.close(node)
    there = set(state.new)
    for node, planned in nodes:
        if node.choice and node not in there:
            state.reopen(node)
        if node.planned != planned:
            _to(state, node, planned)


def _to(state: PlanState, node: NodeState, wanted: Mapping[PodGroup, int]) -> None:
    for group in dict.fromkeys([*node.planned, *wanted]):
        surplus = node.planned.get(group, 0) - wanted.get(group, 0)
        if surplus:
            state.take(group, node, surplus)
