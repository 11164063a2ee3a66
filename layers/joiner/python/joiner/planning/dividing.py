"""A handful of pods on a few nodes: every way to divide them is tried, so that a tiny plan is as cheap as can be.

Resources and node rules decide the price of each part; rules between pods are asked when the best division is carried out.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from joiner.planning.auditing import holds
from joiner.planning.frontier import Frontier
from joiner.planning.groups import Group
from joiner.planning.offers import Choice
from joiner.planning.rooms import Room, World

MOST_PODS = 7
"""877 ways to divide seven; each further pod makes it four times as many."""

Part = tuple[Group, ...]


def divide(world: World, frontier: Frontier, rooms: Sequence[Room]) -> bool:
    """Whether the pods of these rooms could be divided among cheaper ones; then they are."""
    pods = sorted((group for room in rooms for group, number in room.planned.items() for _ in range(number)), key=lambda one: one.index)
    weights = {room.choice.market.pool.weight for room in rooms if room.choice}
    if not 1 < len(pods) <= MOST_PODS or len(weights) != 1:
        return False
    weight = weights.pop()
    known: dict[Part, Choice | None] = {}
    best, found = sum(room.price for room in rooms) - 1e-9, None
    for parts in divisions(pods):
        price, choices = 0.0, []
        for part in parts:
            if part not in known:
                known[part] = _cheapest(frontier, part, weight)
            choice = known[part]
            price += choice.one.offer.price_per_hour if choice else float("inf")
            if price >= best or choice is None:
                break
            choices.append((choice, part))
        else:
            best, found = price, choices
    return found is not None and _carry_out(world, rooms, found)


def divisions(pods: Sequence[Group]) -> Iterator[tuple[Part, ...]]:
    """Every way to divide pods into parts; pods of one group are interchangeable."""
    if not pods:
        yield ()
        return
    first, rest = pods[0], pods[1:]
    seen: set[Part] = set()
    for bits in range(1 << len(rest)):
        together = (first, *(rest[place] for place in range(len(rest)) if bits >> place & 1))
        if together not in seen:
            seen.add(together)
            for others in divisions([rest[place] for place in range(len(rest)) if not bits >> place & 1]):
                yield (together, *others)


def _cheapest(frontier: Frontier, part: Part, weight: int) -> Choice | None:
    mask, need = 0, [0] * len(part[0].vector)
    for group in part:
        mask |= 1 << group.index
        for position, amount in group.needs:
            need[position] += amount
    for known, choices in frontier.tiers:
        if known == weight:
            for choice in choices:
                if choice.groups & mask == mask and all(map(int.__le__, need, choice.one.room)):
                    return choice
    return None


def _carry_out(world: World, rooms: Sequence[Room], parts: Sequence[tuple[Choice, Part]]) -> bool:
    kept = [(room, dict(room.planned)) for room in rooms]
    for room in rooms:
        world.close(room)
    opened: list[Room] = []
    for choice, part in parts:
        if world.over_limit(choice):
            break
        opened.append(world.open(choice))
        if any(world.put(group, opened[-1], number) != number for group, number in Counter(part).items()):
            break
    else:
        if holds(world):
            return True
    for room in opened:
        world.close(room)
    for room, planned in kept:
        world.reopen(room)
        for group, number in planned.items():
            world.take(group, room, -number)
    return False
