"""Taking a small plan apart again: two or three nodes at a time, to see whether their pods go cheaper some other way."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from joiner.planning.attempts import Layout, layout_of, missing_of, restore
from joiner.planning.auditing import holds
from joiner.planning.dividing import MOST_PODS as FEW_PODS
from joiner.planning.dividing import divide
from joiner.planning.effort import Meter
from joiner.planning.filling import Approach, Filler
from joiner.planning.frontier import Frontier
from joiner.planning.groups import Group
from joiner.planning.rooms import Room, World

MOST_NODES = 12
MOST_PODS = 64
FEW_NODES = 4
"""Up to here every division of the pods is tried (``dividing``)."""
ROUNDS = 4
A_TRIAL = 0.03
"""Steps that a node takes which is filled on trial."""


def improve(world: World, frontier: Frontier, shares: Mapping[int, float], meter: Meter) -> None:
    """Makes the plan in this world cheaper if it can, never dearer unless more pods are placed, and never with fewer; until the effort is
    used up."""
    _exchange_nodes(world, frontier, shares, meter)
    if world.pods_left:  # what changed may have opened a place for them
        Filler(world, frontier, shares, Approach()).fill()


def _exchange_nodes(world: World, frontier: Frontier, shares: Mapping[int, float], meter: Meter) -> None:
    stranded = [group for group, number in world.left.items() if number and frontier.of(group) for _ in range(number)]
    if sum(sum(room.planned.values()) for room in world.new) + len(stranded) <= FEW_PODS and _within(meter):
        divide(world, frontier, tuple(world.new), meter, stranded)
    for _ in range(ROUNDS):
        if (
            not world.new
            or len(world.new) > MOST_NODES
            or sum(number for room in world.new for number in room.planned.values()) > MOST_PODS
        ):
            return
        some = [rooms for size in (1, 2, 3) for rooms in combinations(tuple(world.new), size)]
        better = len(world.new) <= FEW_NODES and any(_within(meter) and divide(world, frontier, rooms, meter) for rooms in some)
        if not better and not any(_within(meter) and _rebuild(world, frontier, shares, rooms, meter) for rooms in some):
            return


def _within(meter: Meter) -> bool:
    meter.spend(0.4)
    return not meter.spent()


def _rebuild(world: World, frontier: Frontier, shares: Mapping[int, float], rooms: Sequence[Room], meter: Meter) -> bool:
    """Whether these rooms could be replaced by something cheaper; then they are."""
    before, left, opened = world.price, missing_of(world), world.opened
    kept, others = layout_of(rooms), layout_of(room for room in (*world.existing, *world.new) if room not in rooms)
    for room in rooms:
        world.close(room)
    for order in ("worth", "cpu"):
        Filler(world, frontier, shares, Approach(order), under=before).fill()
        meter.spend(A_TRIAL * (world.opened - opened))
        opened = world.opened
        if missing_of(world) <= left and world.price < before - 1e-9 and holds(world):
            return True
        _reset(world, others)
    restore(world, kept)
    return False


def _reset(world: World, rooms: Layout) -> None:
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


def _to(world: World, room: Room, wanted: Mapping[Group, int]) -> None:
    for group in dict.fromkeys([*room.planned, *wanted]):
        surplus = room.planned.get(group, 0) - wanted.get(group, 0)
        if surplus:
            world.take(group, room, surplus)
