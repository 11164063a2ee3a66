"""Whole domains for whom others keep out: pods that nobody may share a zone with find none once others are in all of them.

Pods that may go anywhere go where it is cheapest, and so may be the reason why others can go nowhere. Domain after domain is cleared of
those who are in the way of a group that was left over, the group goes in, and the others go elsewhere; the plan that places more stays.
"""

from collections.abc import Mapping
from typing import Final

from joiner import names
from joiner.planning.attempts import Attempt, better
from joiner.planning.effort import Meter
from joiner.planning.filling import Approach, Filler
from joiner.planning.frontier import Frontier
from joiner.planning.groups import Group
from joiner.planning.rooms import Room, World
from joiner.planning.topology import Tally

MOST_TRIALS: Final = 24
A_TRIAL: Final = 2.0
"""Steps."""


def evacuate(world: World, frontier: Frontier, shares: Mapping[int, float], made: Attempt, meter: Meter) -> Attempt:
    """The better of this attempt and of those with a domain cleared, in which the world is left."""
    best, trials = made, 0
    for group in [one for one, number in world.left.items() if number and frontier.of(one)]:
        for tally, domain in _taken(world, frontier, group):
            if trials >= MOST_TRIALS or (trials and meter.spent()) or not world.left[group]:
                break
            trials += 1
            meter.spend(A_TRIAL)
            for room in [one for one in world.new if one.labels.get(tally.key) == domain]:
                _clear(world, room, tally)
            filler = Filler(world, frontier, shares, Approach())
            filler.order.sort(key=lambda one: one is not group)
            filler.fill()
            best = better(world, best)
    return best


def _taken(world: World, frontier: Frontier, group: Group) -> list[tuple[Tally, str]]:
    """Domains that are closed to the group because of pods of this plan that could be moved, the cheapest first."""
    own = world.rules[group.index]
    found: dict[tuple[Tally, str], None] = {}
    for choice in frontier.of(group):
        for tally in (*own.away, *own.unwanted):
            domain = choice.label(tally.key)
            if tally.key != names.HOSTNAME and domain is not None and tally not in own.feeds and tally.by_domain.get(domain, 0):
                found[tally, domain] = None
    return list(found)


def _clear(world: World, room: Room, tally: Tally) -> None:
    for group, number in list(room.planned.items()):
        if tally in world.rules[group.index].feeds:
            world.take(group, room, number)
    if not room.planned:
        world.close(room)
