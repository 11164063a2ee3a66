"""Taking a small plan apart again: two or three nodes at a time, to see whether their pods go cheaper some other way."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.exhaustive_partition import MOST_PODS as FEW_PODS
from joiner.planning.placement.exhaustive_partition import repartition_pods
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import Layout, count_missing, layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.plan_state import NodeState, PlanState

MOST_NODES = 12
MOST_PODS = 64
FEW_NODES = 4
"""Up to here every division of the pods is tried (``dividing``)."""
ROUNDS = 4
A_TRIAL = 0.03
"""Steps that a node takes which is filled on trial."""


def improve_plan(world: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], meter: Meter) -> None:
    """Makes the plan in this world cheaper if it can, never dearer unless more pods are placed, and never with fewer; until the effort is
    used up."""
    _exchange_nodes(world, frontier, shares, meter)
    if world.pods_left:  # what changed may have opened a place for them
        SequentialPlacer(world, frontier, shares, PlacementStrategy()).fill()


def _exchange_nodes(world: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], meter: Meter) -> None:
    stranded = [group for group, number in world.left.items() if number and frontier.of(group) for _ in range(number)]
    if sum(sum(room.planned.values()) for room in world.new) + len(stranded) <= FEW_PODS and _within(meter):
        repartition_pods(world, frontier, tuple(world.new), meter, stranded)
    for _ in range(ROUNDS):
        if (
            not world.new
            or len(world.new) > MOST_NODES
            or sum(number for room in world.new for number in room.planned.values()) > MOST_PODS
        ):
            return
        some = [rooms for size in (1, 2, 3) for rooms in combinations(tuple(world.new), size)]
        better = len(world.new) <= FEW_NODES and any(_within(meter) and repartition_pods(world, frontier, rooms, meter) for rooms in some)
        if not better and not any(_within(meter) and _rebuild(world, frontier, shares, rooms, meter) for rooms in some):
            return


def _within(meter: Meter) -> bool:
    meter.spend(0.4)
    return not meter.spent()


def _rebuild(world: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], rooms: Sequence[NodeState], meter: Meter) -> bool:
    """Whether these rooms could be replaced by something cheaper; then they are."""
    before, left, opened = world.price, count_missing(world), world.opened
    kept, others = layout_of(rooms), layout_of(room for room in (*world.existing, *world.new) if room not in rooms)
    for room in rooms:
        world.close(room)
    for order in ("worth", "cpu"):
        SequentialPlacer(world, frontier, shares, PlacementStrategy(order), under=before).fill()
        meter.spend(A_TRIAL * (world.opened - opened))
        opened = world.opened
        if count_missing(world) <= left and world.price < before - 1e-9 and keeps_all_rules(world):
            return True
        _reset(world, others)
    restore_layout(world, kept)
    return False


def _reset(world: PlanState, rooms: Layout) -> None:
    """Back to these rooms with these pods in them."""
    known = dict(rooms)
    for room in [one for one in world.new if one not in known]:
        world.close(room)
    there = set(world.new)
    for room, planned in rooms:
        if room.choice and room not in there:
            world.reopen(room)
        if room.planned != planned:
            _to(world, room, planned)


def _to(world: PlanState, room: NodeState, wanted: Mapping[PodGroup, int]) -> None:
    for group in dict.fromkeys([*room.planned, *wanted]):
        surplus = room.planned.get(group, 0) - wanted.get(group, 0)
        if surplus:
            world.take(group, room, surplus)
