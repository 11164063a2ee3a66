"""Empty a domain of the pods that exclude a group from it.

Pods that may go anywhere go where it is cheapest, and may so exclude other pods from every domain. For a group that was
left over, one domain after the other is emptied of the pods that exclude it; the group is placed, and the others are
placed elsewhere. The plan that places more pods is kept.
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
    state: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], made: ScoredPlan, meter: Meter
) -> ScoredPlan:
    """The better of this attempt and of those with a domain cleared, in which the state is left."""
    best, trials = made, 0
    for group in [one for one, number in state.left.items() if number and frontier.of(one)]:
        for tally, domain in _taken(state, frontier, group):
            if trials >= MOST_TRIALS or (trials and meter.spent()) or not state.left[group]:
                break
            trials += 1
            meter.spend(A_TRIAL)
            for room in [one for one in state.new if one.labels.get(tally.key) == domain]:
                _clear(state, room, tally)
            filler = SequentialPlacer(state, frontier, shares, PlacementStrategy())
            filler.order.sort(key=lambda one: one is not group)
            filler.fill()
            best = keep_better(state, best)
    return best


def _taken(state: PlanState, frontier: OfferFrontier, group: PodGroup) -> list[tuple[DomainCounts, str]]:
    """Domains that are closed to the group because of pods of this plan that could be moved, the cheapest first."""
    own = state.rules[group.index]
    found: dict[tuple[DomainCounts, str], None] = {}
    for choice in frontier.of(group):
        for tally in (*own.away, *own.unwanted):
            domain = choice.label(tally.key)
            if (
                tally.key != names.HOSTNAME
                and domain is not None
                and tally not in own.feeds
                and tally.by_domain.get(domain, 0)
            ):
                found[tally, domain] = None
    return list(found)


def _clear(state: PlanState, room: NodeState, tally: DomainCounts) -> None:
    for group, number in list(room.planned.items()):
        if tally in state.rules[group.index].feeds:
            state.take(group, room, number)
    if not room.planned:
        state.close(room)
