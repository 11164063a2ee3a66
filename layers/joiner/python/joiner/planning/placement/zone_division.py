"""Divide nodes among zones where one zone has most pods of a workload.

A workload that fills one large node is in one zone wherever that node is. This step puts some of its pods on a node in
another zone, or on several, if the plan then costs at most a share more. It looks at groups with more than half of
their pods in one zone: those of many pods, and those whose pods prefer several zones themselves. Where all nodes are in
one zone, it looks at all nodes: of few pods, one node may move as a whole, with another instance type.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet, PoolOffers
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.placement.node_exchange import NodeExchange, Part, offers_for
from joiner.planning.placement.node_merging import MOST_TOGETHER
from joiner.planning.placement.preference_effects import PreferenceEffects, asks_for_zones
from joiner.planning.placement.zone_spreading import ZoneCounts
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY

MOST_DIVISIONS: Final = 12
"""The number of nodes that are looked at; finding offers for their parts takes some milliseconds each."""
SHAPES: Final = ((1, 1, 1), (1, 2, 1), (1, 3, 2), (1, 4, 3), (3, 8, 1), (1, 3, 1), (1, 4, 1), (1, 8, 1))
"""How nodes are divided, the first that is possible: the share of the pods that one part in another zone has, as a
fraction, and the number of such parts. The first is the whole node, with another instance type."""


def divide_among_zones(state: PlanState, most: float) -> int:
    """Divide nodes while the plan costs at most so much ($/h); return how many nodes are in other zones for that."""
    return ZoneDivision(state, most).run()


@dataclass(frozen=True, slots=True, eq=False)
class CrowdedNode:
    """A node with many pods of a zone; ``pods`` is their number. ``whole`` is whether it may only move as a whole."""

    node: NodeState
    choice: OfferChoice
    pods: int
    whole: bool


class ZoneDivision:
    """The nodes and pods of one plan by zone, while nodes are divided."""

    def __init__(self, state: PlanState, most: float) -> None:
        self._state = state
        self._most = most
        self._exchange = NodeExchange(state)
        self._effects = PreferenceEffects(state)
        self._counts = ZoneCounts(state)
        self._sorted: dict[tuple[OfferSet, str], list[NodeOffer]] = {}
        self._needed: dict[tuple[int, int], bool] = {}

    def run(self) -> int:
        """Divide the node with the most pods that are together, until no zone has too many of them."""
        made, tried = 0, set[str]()
        while len(tried) < MOST_DIVISIONS:
            crowds = [crowd for crowd in self._crowds() if crowd.node.name not in tried]
            moved = 0
            for crowd in sorted(crowds, key=lambda one: -one.pods)[: MOST_DIVISIONS - len(tried)]:
                tried.add(crowd.node.name)
                if moved := self._divide(crowd):
                    break
            if not moved:
                break
            made += moved
        return made

    def _crowds(self) -> Iterator[CrowdedNode]:
        """Yield the nodes with pods of which their zone has too many."""
        full, one_zone = self._counts.full_zones(self._state.groups.pending), self._has_one_zone()
        many = sum(sum(node.planned.values()) for node in self._state.new) > MOST_TOGETHER
        for node in self._state.new if full or one_zone else ():
            choice = node.choice
            if choice is None or choice.one.supply is not None:
                continue
            together = [
                number
                for group, number in node.planned.items()
                if full.get(group) == choice.one.offering.zone
                and (number > MOST_TOGETHER or (number > 1 and self._asks(group)))
            ]
            pods = sum(node.planned.values()) if one_zone else max(together, default=0)
            effects = [self._effects.of(group) for group in node.planned] if pods else ()
            if pods and not any(names.ZONE in one.keys for one in effects):
                yield CrowdedNode(node, choice, pods, any(one.beside for one in effects) or not (together or many))

    def _has_one_zone(self) -> bool:
        return sum(number > 0 for number in self._counts.nodes.values()) == 1

    def _asks(self, group: PodGroup) -> bool:
        apart = self._effects.of(group).apart
        return any(counts.key == names.ZONE for counts in apart) and asks_for_zones(group)

    def _divide(self, crowd: CrowdedNode) -> int:
        """Divide a node in the first way that is possible; return how many nodes are in other zones for that."""
        planned, zone = dict(crowd.node.planned), crowd.choice.one.offering.zone
        for share, divisor, number in SHAPES[:1] if crowd.whole else SHAPES:
            far = _share_of(planned, share, divisor, number)
            near = {group: left for group, each in planned.items() if (left := each - number * far.get(group, 0))}
            parts = self._parts(crowd.choice, near, far, number) if far else []
            if parts and all(map(self._may_stand, parts)) and self._exchange.divide([crowd.node], parts):
                self._counts.add(planned, zone, -1)
                for choice, inside in parts:
                    self._counts.add(inside, choice.one.offering.zone, 1)
                return number
        return 0

    def _parts(
        self, choice: OfferChoice, near: Mapping[PodGroup, int], far: Mapping[PodGroup, int], number: int
    ) -> list[Part]:
        """Return a node for what stays in the zone, if anything, and nodes for the parts in other zones. There are none
        if they cost too much, or if another zone would be as full as this one is."""
        zone, price = choice.one.offering.zone, choice.one.offer.price_per_hour
        spare = self._most - self._state.price + price
        stays = self._cheapest(choice, near, spare).get(zone) if near else None
        places = self._cheapest(choice, far, spare)
        places.pop(zone, None)
        if not places or (near and not stays):
            return []
        spare -= sum(one.one.offer.price_per_hour for one in [stays] if one)
        chosen = self._emptiest(places, far, number, spare)
        if not chosen or not self._empties(zone, far, chosen):
            return []
        parts: list[Part] = [(stays, near)] if stays else []
        return [*parts, *((places[there], far) for there in chosen.elements())]

    def _may_stand(self, part: Part) -> bool:
        """Return whether one of the pods could not have a node of a pool with higher weight: without such a pod, the
        node would not exist."""
        choice, inside = part
        weight = choice.pool_offers.pool.weight
        higher = [one for one in self._state.offered_pools if one.pool.weight > weight]
        return not higher or any(self._needs(group, weight, higher) for group in inside)

    def _needs(self, group: PodGroup, weight: int, higher: Sequence[PoolOffers]) -> bool:
        """Return whether no pool of higher weight could have a node for a pod of the group."""
        known = (group.index, weight)
        if known not in self._needed:
            self._needed[known] = not any(_could_have(group, one) for one in higher)
        return self._needed[known]

    def _empties(self, zone: str, far: Mapping[PodGroup, int], chosen: Counter[str]) -> bool:
        """Return whether the zones that get parts are less full afterwards than this zone is now."""
        nodes, weight = self._counts.nodes, _weight(far)
        full = (self._counts.fullness(far, zone)[0], nodes[zone])
        return all(
            (round(self._counts.fullness(far, there)[0] + times * weight, 6), nodes.get(there, 0.0) + times) < full
            for there, times in chosen.items()
        )

    def _emptiest(
        self, places: Mapping[str, OfferChoice], far: Mapping[PodGroup, int], number: int, spare: float
    ) -> Counter[str]:
        """Return how many of the parts go to each zone, the emptiest ones that cost at most so much; none if all cost
        more."""
        prices = {zone: place.one.offer.price_per_hour for zone, place in places.items()}
        least, weight = min(prices.values()), _weight(far)
        spare -= number * least
        chosen: Counter[str] = Counter()
        for _ in range(number if spare >= -TINY else 0):
            rank = {
                zone: (
                    self._counts.fullness(far, zone)[0] + chosen[zone] * weight,
                    self._counts.nodes.get(zone, 0.0),
                    places[zone].one.offer,
                )
                for zone, price in prices.items()
                if price - least <= spare + TINY
            }
            zone = min(rank, key=lambda one: (rank[one], one))
            chosen[zone] += 1
            spare -= prices[zone] - least
        return chosen

    def _cheapest(self, choice: OfferChoice, inside: Mapping[PodGroup, int], most: float) -> dict[str, OfferChoice]:
        """Return by zone the cheapest offer of at most this price that holds these pods, and on which their preferences
        are satisfied as well. ``joining`` are zones with more pods from which these prefer to be apart."""
        found: dict[str, OfferChoice] = {}
        joining = set[str]()
        zones = len(choice.variant.offer_set.positions(names.ZONE)[0])
        for one in offers_for(choice, inside, self._by_price(choice)):
            if one.offering.price_per_hour > most + TINY or len(found) + len(joining) == zones:
                break
            if one.offering.zone in found or one.offering.zone in joining:
                continue
            new = replace(choice, one=one)
            if not self._effects.keep_apart(inside, choice.label, new.label):
                joining.add(one.offering.zone)
            elif self._effects.keep_labels(inside, choice, new):
                found[one.offering.zone] = choice.with_offer(one)
        return found

    def _by_price(self, choice: OfferChoice) -> list[NodeOffer]:
        """Return the unlimited offers of the same capacity type, cheapest first."""
        capacity_type = choice.one.offering.capacity_type
        known = (choice.variant.offer_set, capacity_type)
        if known not in self._sorted:
            able = (
                one
                for one in choice.variant.launchable
                if one.supply is None and one.offering.capacity_type == capacity_type
            )
            self._sorted[known] = sorted(able, key=lambda one: (one.offering.price_per_hour, one.model.name, one.index))
        return self._sorted[known]


def _could_have(group: PodGroup, pool_offers: PoolOffers) -> bool:
    """Return whether a node of the pool could hold a pod of the group, apart from limits and rules between pods."""
    if group.constraints.untolerated(pool_offers.pool.taints) is not None:
        return False
    return any(
        accepted >> one.index & 1 and fits(group, one.free)
        for variant in pool_offers.variants
        if (accepted := variant.bits[group.index])
        for one in variant.launchable
    )


def _share_of(planned: Mapping[PodGroup, int], share: int, divisor: int, number: int) -> dict[PodGroup, int]:
    """Return about ``share / divisor`` of these pods, so that there are ``number`` times as many: of each group about
    this share, or of every second group a pod. It is empty if single pods allow less than half of that."""
    part: dict[PodGroup, int] = {}
    before, taken = 0, 0
    for group, each in planned.items():
        before += each
        if amount := min(before * share // divisor - taken, each // number):
            part[group] = amount
            taken += amount
    return part if taken * divisor * 2 >= before * share else {}


def _weight(far: Mapping[PodGroup, int]) -> float:
    """Return by how much such a part makes a zone fuller, in the measure of ``ZoneCounts.fullness``."""
    return sum(number * number for number in far.values()) / sum(far.values())
