"""How one way to a plan ended, comparable with others, and the way back to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joiner.planning.auditing import holds
from joiner.planning.groups import Group
from joiner.planning.rooms import Room, World

Layout = tuple[tuple[Room, Mapping[Group, int]], ...]
"""Rooms with what the plan puts in them: enough to make it again."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one way ended: by ``score``, the smaller the better."""

    score: tuple[float, ...]
    missing: int
    layout: Layout


def missing_of(world: World) -> tuple[float, ...]:
    """How many pods have no place, by priority, the highest first."""
    by_level: dict[int, float] = {}
    for one, number in world.left.items():
        by_level[one.constraints.priority] = by_level.get(one.constraints.priority, 0.0) + number
    return tuple(by_level[level] for level in sorted(by_level, reverse=True))


def attempt_of(world: World) -> Attempt:
    """By priority, the highest first: pods left; then price and nodes."""
    layout = layout_of(room for room in (*world.existing, *world.new) if room.planned)
    # A plan made strictly pod after pod may still end in a skew that its first pods would not have accepted: any other is better
    ordered_only = 0.0 if holds(world) else 1.0
    return Attempt((ordered_only, *missing_of(world), round(world.price, 9), float(len(world.new))), world.pods_left, layout)


def better(world: World, before: Attempt) -> Attempt:
    """The better of the plan in this world and an earlier one, with which the world is left."""
    made = attempt_of(world)
    if made.score < before.score:
        return made
    clear(world)
    restore(world, before.layout)
    return before


def layout_of(rooms: Iterable[Room]) -> Layout:
    return tuple((room, dict(room.planned)) for room in rooms)


def clear(world: World) -> None:
    """Takes every planned pod out and every new room away."""
    for room in reversed(list(world.new)):
        world.close(room)
    for room in world.existing:
        for one, number in list(room.planned.items()):
            world.take(one, room, number)


def restore(world: World, layout: Layout) -> None:
    """Makes an earlier plan, or a part of one, again; its rules were asked then."""
    for room, planned in layout:
        if room.choice:
            world.reopen(room)
        for one, number in planned.items():
            world.take(one, room, -number)
