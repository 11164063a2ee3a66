"""Whole domains for whom others keep out: pods that nobody may share a zone with find none once others are in all of them.

Pods that may go anywhere go where it is cheapest, and so may be the reason why others can go nowhere. Domain after domain is cleared of
those who are in the way of a group that was left over, the group goes in, and the others go elsewhere; the plan that places more stays.
"""

from collections.abc import Mapping
from typing import Final

from joiner import names
from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import ScoredPlan, keep_better
from joiner.planning.state.plan_state import NodeState, PlanState
from joiner.planning.state.pod_topology import DomainCounts

MOST_TRIALS: Final = 24
A_TRIAL: Final = 2.0
"""Steps."""


def clear_blocked_domains(
    world: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], made: ScoredPlan, meter: Meter
) -> ScoredPlan:
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
            filler = SequentialPlacer(world, frontier, shares, PlacementStrategy())
            filler.order.sort(key=lambda one: one is not group)
            filler.fill()
            best = keep_better(world, best)
    return best


def _taken(world: PlanState, frontier: OfferFrontier, group: PodGroup) -> list[tuple[DomainCounts, str]]:
    """Domains that are closed to the group because of pods of this plan that could be moved, the cheapest first."""
    own = world.rules[group.index]
    found: dict[tuple[DomainCounts, str], None] = {}
    for choice in frontier.of(group):
        for tally in (*own.away, *own.unwanted):
            domain = choice.label(tally.key)
            if tally.key != names.HOSTNAME and domain is not None and tally not in own.feeds and tally.by_domain.get(domain, 0):
                found[tally, domain] = None
    return list(found)


def _clear(world: PlanState, room: NodeState, tally: DomainCounts) -> None:
    for group, number in list(room.planned.items()):
        if tally in world.rules[group.index].feeds:
            world.take(group, room, number)
    if not room.planned:
        world.close(room)
