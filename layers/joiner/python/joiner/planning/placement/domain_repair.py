"""Clear a domain of the pods that exclude a group from it.

Pods that may go to any domain go to the cheapest one, and can exclude other pods from every domain. For a group
that is left over, one domain after the other is cleared of the pods that exclude it. The group is placed, and the
other pods are placed elsewhere. The plan that places more pods is kept.
"""

from collections.abc import Mapping
from typing import Final

from joiner import names
from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import ScoredPlan, keep_better
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts

MOST_TRIALS: Final = 24
A_TRIAL: Final = 2.0
"""The effort of one trial, in steps."""


def clear_blocked_domains(
    state: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], made: ScoredPlan, meter: Meter
) -> ScoredPlan:
    """Compare this attempt with attempts that clear one domain; leave the best one in the state and return it."""
    best, trials = made, 0
    for group in [one for one, number in state.left.items() if number and frontier.of(one)]:
        for counts, domain in _taken(state, frontier, group):
            if trials >= MOST_TRIALS or (trials and meter.spent()) or not state.left[group]:
                break
            trials += 1
            meter.spend(A_TRIAL)
            for node in [one for one in state.new if one.labels.get(counts.key) == domain]:
                _clear(state, node, counts)
            filler = SequentialPlacer(state, frontier, shares, PlacementStrategy())
            filler.order.sort(key=lambda one: one is not group)
            filler.fill()
            best = keep_better(state, best)
    return best


def _taken(state: PlanState, frontier: OfferFrontier, group: PodGroup) -> list[tuple[DomainCounts, str]]:
    """Return the domains that exclude the group because of movable pods of this plan, the cheapest first."""
    own = state.rules[group.index]
    found: dict[tuple[DomainCounts, str], None] = {}
    for choice in frontier.of(group):
        for counts in (*own.away, *own.unwanted):
            domain = choice.label(counts.key)
            if (
                counts.key != names.HOSTNAME
                and domain is not None
                and counts not in own.feeds
                and counts.by_domain.get(domain, 0)
            ):
                found[counts, domain] = None
    return list(found)


def _clear(state: PlanState, node: NodeState, counts: DomainCounts) -> None:
    for group, number in list(node.planned.items()):
        if counts in state.rules[group.index].feeds:
            state.take(group, node, number)
    if not node.planned:
        state.close(node)
