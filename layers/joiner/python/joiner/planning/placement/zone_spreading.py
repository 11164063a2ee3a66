"""Spread the nodes of a finished plan over zones, as the scheduler's own default constraints prefer.

The search takes the first of equally cheap zones, so that a plan may end in one zone. This step moves nodes to other
zones: at no cost where prices are equal, otherwise for at most a share of the plan's price. It evens out the pods of
each group over the zones, and then the nodes. Nodes stay where rules or preferences of their pods about zones hold
them; other preferences are satisfied as well in the new zone. ``zone_division`` divides nodes where this is not enough.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet, PoolVariant
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.node_exchange import NodeExchange
from joiner.planning.placement.preference_effects import PreferenceEffects
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY

MOST_NODES: Final = 3_000
"""With more nodes, those beyond stay in their zones."""

Counts = dict[str, float]


def spread_over_zones(state: PlanState, most: float) -> int:
    """Move nodes to other zones while the plan costs at most so much ($/h); return how many were moved."""
    return ZoneSpreading(state, most).run()


class ZoneCounts:
    """The nodes of a plan, and the pods of each group, by zone."""

    def __init__(self, state: PlanState) -> None:
        self.pods: dict[int, Counts] = {}
        self.nodes: Counts = {}
        for node in (*state.existing, *state.new):
            inside = {**{group: each for group, each in node.held.items() if not node.choice}, **node.planned}
            self.add(inside, node.labels.get(names.ZONE, ""), 1)

    def add(self, inside: Mapping[PodGroup, int], zone: str, number: int) -> None:
        """Count a node with these pods in a zone; with the number -1, no longer."""
        self.nodes[zone] = self.nodes.get(zone, 0.0) + number
        for group, each in inside.items():
            counts = self.pods.setdefault(group.index, {})
            counts[zone] = counts.get(zone, 0.0) + number * each

    def fullness(self, planned: Mapping[PodGroup, int], zone: str) -> tuple[float, float]:
        """Return how full a zone is for these pods: the pods of their groups, each weighed by its share of the node;
        then the nodes."""
        total = sum(planned.values())
        pods = sum(number / total * self.pods.get(group.index, {}).get(zone, 0.0) for group, number in planned.items())
        return round(pods, 6), self.nodes.get(zone, 0.0)

    def full_zones(self, groups: Iterable[PodGroup]) -> dict[PodGroup, str]:
        """Return by group the zone that has more than half of its pods; of an odd number, one more than that."""
        found = {}
        for group in groups:
            counts = self.pods.get(group.index, {})
            zone = max(counts, key=lambda one: (counts[one], one), default="")
            if zone and counts[zone] > (sum(counts.values()) + 1) // 2:
                found[group] = zone
        return found


class ZoneSpreading:
    """The nodes and pods of one plan by zone, while nodes are moved."""

    def __init__(self, state: PlanState, most: float) -> None:
        self._state = state
        self._most = most
        self._exchange = NodeExchange(state)
        self._effects = PreferenceEffects(state)
        self._counts = ZoneCounts(state)
        self._siblings: dict[tuple[OfferSet, str, str], list[NodeOffer]] = {}
        self._choices: dict[tuple[PoolVariant, int, int], OfferChoice] = {}

    def run(self) -> int:
        """Move the nodes one after the other; nodes with many pods first, so that the small ones even out the rest."""
        able = [node for node in self._state.new if self._may_move(node)]
        ordered = sorted(able, key=lambda one: -sum(one.planned.values()))[:MOST_NODES]
        return sum(self._move(node) for node in ordered)

    def _may_move(self, node: NodeState) -> bool:
        choice = node.choice
        if choice is None or choice.one.supply is not None or not node.planned:
            return False
        return not any(names.ZONE in self._effects.of(group).keys for group in node.planned)

    def _move(self, node: NodeState) -> bool:
        choice = node.choice
        if choice is None:
            return False
        planned, zone = dict(node.planned), choice.one.offering.zone
        self._counts.add(planned, zone, -1)
        here = self._counts.fullness(planned, zone)
        places = ((self._counts.fullness(planned, one.offering.zone), one) for one in self._others(choice))
        better = sorted(
            ((fullness, one.offer, one.index, one) for fullness, one in places if fullness < here),
            key=lambda each: each[:3],
        )
        common = choice.variant.common_to(group.index for group in planned) if better else 0
        for _, offer, _, one in better:
            more = offer.price_per_hour - choice.one.offer.price_per_hour
            if not common >> one.index & 1 or (more > TINY and self._state.price + more > self._most + TINY):
                continue
            new = self._choice(choice, one)
            if self._effects.allow(planned, choice, new) and self._exchange.replace([node], new):
                self._counts.add(planned, one.offering.zone, 1)
                return True
        self._counts.add(planned, zone, 1)
        return False

    def _choice(self, choice: OfferChoice, one: NodeOffer) -> OfferChoice:
        known = (choice.variant, one.index, choice.groups)
        if known not in self._choices:
            self._choices[known] = choice.with_offer(one)
        return self._choices[known]

    def _others(self, choice: OfferChoice) -> list[NodeOffer]:
        """Return the offers of the same instance type and capacity type in other zones."""
        known = (choice.variant.offer_set, choice.one.model.name, choice.one.offering.capacity_type)
        if known not in self._siblings:
            self._siblings[known] = [
                one
                for one in choice.variant.launchable
                if one.model.name == choice.one.model.name
                and one.offering.capacity_type == choice.one.offering.capacity_type
                and one.supply is None
            ]
        zone = choice.one.offering.zone
        return [one for one in self._siblings[known] if one.offering.zone != zone]
