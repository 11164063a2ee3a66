"""Spread the nodes of a finished plan over zones, as the scheduler's own default constraints prefer.

The search takes the first of equally cheap zones, so that a plan may end in one zone. This step moves nodes to other
zones: at no cost where prices are equal, otherwise for at most a share of the plan's price. It evens out the pods of
each group over the zones, and then the nodes. If all of many pods are in one zone, it divides a node in two. Nodes of
pods with rules or preferences about zones stay where they are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.node_exchange import NodeExchange, has_preferences, offers_for
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY

MOST_NODES: Final = 3_000
"""With more nodes, those beyond stay in their zones."""
MOST_TOGETHER: Final = 16
"""With more pods than this in one zone only, a node is divided in two, so that another zone has some of them."""

Counts = dict[str, float]


def spread_over_zones(state: PlanState, share: float) -> int:
    """Move nodes to other zones for at most this share of the plan's price; return how many were moved."""
    return ZoneSpreading(state, share).run()


class ZoneSpreading:
    """The nodes and pods of one plan by zone, while nodes are moved."""

    def __init__(self, state: PlanState, share: float) -> None:
        self._state = state
        self._most = state.price * (1 + share)
        self._exchange = NodeExchange(state)
        self._pods: dict[int, Counts] = {}
        self._nodes: Counts = {}
        self._siblings: dict[tuple[int, str, str], list[NodeOffer]] = {}
        self._choices: dict[tuple[int, int, int], OfferChoice] = {}
        for node in (*state.existing, *state.new):
            self._count(node, node.labels.get(names.ZONE, ""), 1)

    def run(self) -> int:
        """Move the nodes one after the other; nodes with many pods first, so that the small ones even out the rest."""
        moved = 0
        able = [node for node in self._state.new if self._may_move(node)]
        for node in sorted(able, key=lambda one: -sum(one.planned.values()))[:MOST_NODES]:
            moved += self._move(node)
        return moved + self._divide(able)

    def _divide(self, able: Sequence[NodeState]) -> int:
        """Divide the node with the most pods among two zones, if all nodes are in one."""
        pods = sum(sum(node.planned.values()) for node in self._state.new)
        able = [node for node in able if node in self._state.new and node.choice]
        if len({zone for zone, number in self._nodes.items() if number > 0}) != 1 or pods <= MOST_TOGETHER or not able:
            return 0
        node = max(able, key=lambda one: sum(one.planned.values()))
        choice = node.choice
        if choice is None:
            return 0
        half = {group: number // 2 for group, number in node.planned.items() if number // 2}
        rest = {group: number - half.get(group, 0) for group, number in node.planned.items()}
        zone = choice.one.offering.zone
        near, far = (
            self._cheapest(choice, rest, lambda there: there == zone),
            self._cheapest(choice, half, lambda there: there != zone),
        )
        if near is None or far is None or not half:
            return 0
        price = near.offer.price_per_hour + far.offer.price_per_hour - choice.one.offer.price_per_hour
        if self._state.price + price > self._most + TINY:
            return 0
        parts = [(self._choice(choice, one), inside) for one, inside in ((near, rest), (far, half))]
        return int(self._exchange.divide([node], parts))

    def _cheapest(
        self, choice: OfferChoice, inside: Mapping[PodGroup, int], zone: Callable[[str], bool]
    ) -> NodeOffer | None:
        """Return the cheapest offer in such a zone that holds these pods."""
        able = (
            one
            for one in offers_for(choice, inside)
            if one.supply is None
            and zone(one.offering.zone)
            and one.offering.capacity_type == choice.one.offering.capacity_type
        )
        return min(able, key=lambda one: (one.offer, one.index), default=None)

    def _may_move(self, node: NodeState) -> bool:
        choice = node.choice
        if choice is None or choice.one.supply is not None or not node.planned:
            return False
        return not any(self._state.keys_of(group) or has_preferences(self._state, group) for group in node.planned)

    def _move(self, node: NodeState) -> bool:
        choice = node.choice
        if choice is None:
            return False
        planned, zone = dict(node.planned), choice.one.offering.zone
        self._count(node, zone, -1)
        here = self._fullness(planned, zone)
        better = sorted(
            ((self._fullness(planned, one.offering.zone), one.offer, one.index, one) for one in self._others(choice)),
            key=lambda each: each[:3],
        )
        for fullness, offer, _, one in better:
            more = offer.price_per_hour - choice.one.offer.price_per_hour
            if fullness >= here:
                break
            if more > TINY and self._state.price + more > self._most + TINY:
                continue
            if not choice.variant.common_to(group.index for group in planned) >> one.index & 1:
                continue
            if self._exchange.replace([node], self._choice(choice, one)):
                self._count_pods(planned, one.offering.zone, 1)
                return True
        self._count(node, zone, 1)
        return False

    def _choice(self, choice: OfferChoice, one: NodeOffer) -> OfferChoice:
        known = (id(choice.variant), one.index, choice.groups)
        if known not in self._choices:
            self._choices[known] = choice.with_offer(one)
        return self._choices[known]

    def _others(self, choice: OfferChoice) -> list[NodeOffer]:
        """Return the offers of the same instance type and capacity type in other zones."""
        known = (id(choice.variant.offer_set), choice.one.model.name, choice.one.offering.capacity_type)
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

    def _fullness(self, planned: Mapping[PodGroup, int], zone: str) -> tuple[float, float]:
        """Return how full a zone is for these pods: the pods of their groups, each weighed by its share of the node;
        then the nodes."""
        total = sum(planned.values())
        pods = sum(number / total * self._pods.get(group.index, {}).get(zone, 0.0) for group, number in planned.items())
        return round(pods, 6), self._nodes.get(zone, 0.0)

    def _count(self, node: NodeState, zone: str, number: int) -> None:
        inside = {**{group: each for group, each in node.held.items() if not node.choice}, **node.planned}
        self._count_pods(inside, zone, number)

    def _count_pods(self, inside: Mapping[PodGroup, int], zone: str, number: int) -> None:
        self._nodes[zone] = self._nodes.get(zone, 0.0) + number
        for group, each in inside.items():
            counts = self._pods.setdefault(group.index, {})
            counts[zone] = counts.get(zone, 0.0) + number * each
