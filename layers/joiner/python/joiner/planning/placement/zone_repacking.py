"""Pack the pods of one group again, where one node has more than half of them and cannot be divided cheaply.

Two halves of a node often fit no instance types of half the size: a few pods are left. Together with the other nodes of
the group, they may. This step packs all nodes that have pods of this group only: no node gets more than half of the
group, and the nodes are spread over zones. Of each number of pods, it finds the cheapest nodes by dynamic programming.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.node_exchange import NodeExchange, Part
from joiner.planning.placement.node_merging import MOST_TOGETHER
from joiner.planning.placement.preference_effects import PreferenceEffects
from joiner.planning.placement.zone_spreading import ZoneCounts
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY

MOST_PODS: Final = 1_000
"""More pods of a group are not packed again: they have many nodes. A thousand take about 30 ms."""
MOST_GROUPS: Final = 4


def repack_among_zones(state: PlanState, most: float) -> int:
    """Pack groups again while the plan costs at most so much ($/h); return how many of their nodes are in other zones
    then."""
    return ZoneRepacking(state, most).run()


class ZoneRepacking:
    """The groups of one plan with most of their pods on one node."""

    def __init__(self, state: PlanState, most: float) -> None:
        self._state = state
        self._most = most
        self._exchange = NodeExchange(state)
        self._effects = PreferenceEffects(state)

    def run(self) -> int:
        """Pack the groups with most pods again, one after the other."""
        full = ZoneCounts(self._state).full_zones(self._state.groups.pending)
        groups = [group for group in full if self._may_move(group)]
        groups.sort(key=lambda group: (-len(group.pods), group.index))
        return sum(self._repack(group, full[group]) for group in groups[:MOST_GROUPS])

    def _may_move(self, group: PodGroup) -> bool:
        effects = self._effects.of(group)
        return MOST_TOGETHER < len(group.pods) <= MOST_PODS and not (
            effects.settled or effects.beside or names.ZONE in effects.keys or group.attaches
        )

    def _repack(self, group: PodGroup, zone: str) -> int:
        nodes = self._nodes_of(group)
        largest = max(nodes, key=lambda node: node.planned[group], default=None)
        total = sum(node.planned[group] for node in nodes)
        choice = largest.choice if largest else None
        if largest is None or choice is None or choice.one.offering.zone != zone:
            return 0
        half = (group.running + len(group.pods)) // 2
        if largest.planned[group] <= max(half, MOST_TOGETHER):
            return 0
        spare = self._most - self._state.price + sum(node.price for node in nodes)
        places = self._places(group, choice)
        chosen = _pack(total, half, {number: price for number, (price, _) in places.items()})
        if sum(places[number][0] for number in chosen) > spare + TINY:
            return 0
        parts = self._parts(group, choice, nodes, [(places[number][1], min(number, half)) for number in chosen])
        if not parts or not self._exchange.divide(nodes, parts):
            return 0
        return sum(one.one.offering.zone != zone for one, _ in parts)

    def _nodes_of(self, group: PodGroup) -> list[NodeState]:
        """Return the nodes with pods of this group only, of one variant and capacity type: those of the largest one."""
        nodes = [
            node
            for node in self._state.new
            if node.choice and node.choice.one.supply is None and node.planned.keys() == {group}
        ]
        kinds = {
            id(node): node.choice and (node.choice.variant, node.choice.one.offering.capacity_type) for node in nodes
        }
        largest = max(nodes, key=lambda node: node.planned[group], default=None)
        return [node for node in nodes if largest and kinds[id(node)] == kinds[id(largest)]]

    def _places(self, group: PodGroup, choice: OfferChoice) -> dict[int, tuple[float, list[NodeOffer]]]:
        """Return by number of pods the price of the cheapest offers that hold so many, and these offers."""
        found: dict[int, tuple[float, list[NodeOffer]]] = {}
        bits = choice.variant.common_to([group.index])
        for one in choice.variant.launchable:
            same = one.supply is None and one.offering.capacity_type == choice.one.offering.capacity_type
            if not same or not bits >> one.index & 1:
                continue
            number = min((one.free[at] // amount for at, amount in group.needs), default=0)
            price = one.offering.price_per_hour
            known = found.get(number)
            if number < 1 or (known and known[0] < price - TINY):
                continue
            if self._effects.keep_labels([group], choice, replace(choice, one=one)):
                found[number] = (price, [*known[1], one] if known and known[0] <= price + TINY else [one])
        return found

    def _parts(
        self,
        group: PodGroup,
        choice: OfferChoice,
        nodes: Sequence[NodeState],
        chosen: Sequence[tuple[list[NodeOffer], int]],
    ) -> list[Part]:
        """Return the new nodes, each in the emptiest zone where it costs the same; none if one zone has more than half
        of the pods even so."""
        counts, parts = ZoneCounts(self._state), list[Part]()
        for node in nodes:
            counts.add(node.planned, node.labels.get(names.ZONE, ""), -1)
        left = sum(node.planned[group] for node in nodes)
        for offers, number in sorted(chosen, key=lambda one: -one[1]):
            inside = {group: min(number, left)}
            one = min(offers, key=lambda one: (counts.fullness(inside, one.offering.zone), one.offer, one.index))
            counts.add(inside, one.offering.zone, 1)
            parts.append((choice.with_offer(one), inside))
            left -= inside[group]
        return parts if group not in counts.full_zones([group]) else []


def _pack(total: int, most: int, prices: Mapping[int, float]) -> list[int]:
    """Return the cheapest nodes for so many pods, each by the number of pods that it holds, of which at most ``most``
    are used; of equal prices the fewest nodes.

    >>> _pack(10, 5, {3: 1.0, 4: 1.2, 10: 2.0})
    [3, 3, 4]
    """
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)]
    kinds = sorted(prices.items(), key=lambda kind: (kind[1], -kind[0]))
    useful = [kind for at, kind in enumerate(kinds) if all(kind[0] > other for other, _ in kinds[:at])]
    for pods in range(1, total + 1):
        before = ((best[max(pods - min(number, most), 0)], price, number) for number, price in useful)
        best.append(min((round(cost + price, 9), nodes + 1, number) for (cost, nodes, _), price, number in before))
    chosen, left = [], total
    while left > 0:
        chosen.append(best[left][2])
        left -= min(best[left][2], most)
    return sorted(chosen)
