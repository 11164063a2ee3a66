"""The offers that can be launched in place of a planned node: offers that hold the same pods by the same rules, for
about the same price.

The fleet chooses among them when some have insufficient capacity. Spot nodes have more alternatives (`spot_choices`).
The offers of a pool are arrays, because they are read for every node.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from joiner import names
from joiner.catalogue.exotic_types import exotic_kinds
from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet, PoolOffers, meets_min_values
from joiner.planning.output.spot_choices import SpareAllowance, choose_offers, is_spot, limit_price
from joiner.planning.relaxation.dominance import distinguishing_keys
from joiner.planning.relaxation.offer_table import OfferColumns, columns_of, unpack_bits
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

PRICE_TOLERANCE: Final = 0.10
"""The maximum share by which the alternatives of a node may be more expensive than its own offer."""
MOST_ALTERNATIVES: Final = 60
MOST_TYPES: Final = 60
"""The maximum number of instance types of a launch, as Karpenter's."""
MOST_PRICE_LISTS: Final = 8
"""The maximum number of price lists of one offer set. The labels that matter change little from plan to plan."""


class OfferAlternatives:
    """The alternatives of all nodes of one plan."""

    def __init__(self, state: PlanState, *, zonal: bool = False) -> None:
        """``zonal`` leaves on-demand nodes in their zones, so that EC2 does not launch all of them in one."""
        self._state = state
        self._zonal = zonal
        self._keys = distinguishing_keys(state.groups)
        self._open: dict[tuple[OfferSet, int], Marks] = {}
        self._price_lists: dict[tuple[PoolOffers, OfferSet], PriceList] = {}
        self._known: dict[object, list[NodeOffer]] = {}
        self._zones: dict[object, frozenset[str]] = {}
        self._spare = SpareAllowance(state)

    def of(self, node: NodeState, choice: OfferChoice, closed: frozenset[str] = frozenset()) -> list[NodeOffer]:
        """Return its own offer first, then the cheapest alternatives, and further ones if minValues requires them.

        Alternatives are not in the ``closed`` zones, whose subnets have no address for this node; if minValues requires
        them there, they come last.
        """
        bits = choice.variant.common_to(group.index for group in node.planned)
        if choice.pool_offers.pool.min_values:
            return self._found(node, choice, bits, closed)
        known = (choice, bits, closed, *node.free)
        if known not in self._known:
            self._known[known] = self._found(node, choice, bits, closed)
        return self._known[known]

    def other_zones(self, node: NodeState, choice: OfferChoice, closed: frozenset[str]) -> frozenset[str]:
        """Return the zones of the alternatives outside the node's own zone."""
        contents = sorted((group.index, number) for group, number in node.planned.items())
        known = (choice, closed, *node.free, *contents)
        if known not in self._zones:
            zones = frozenset(one.offering.zone for one in self.of(node, choice, closed))
            self._zones[known] = zones - {choice.one.offering.zone}
        return self._zones[known]

    def _found(self, node: NodeState, choice: OfferChoice, bits: int, closed: frozenset[str]) -> list[NodeOffer]:
        pool, offer_set, own = choice.pool_offers.pool, choice.variant.offer_set, choice.one
        need = [before - after for before, after in zip(own.free, node.free, strict=True)]
        if (offer_set, bits) not in self._open:
            self._open[offer_set, bits] = unpack_bits(bits, len(offer_set.launchable))
        listed = (choice.pool_offers, offer_set)
        if listed not in self._price_lists:
            limits = tuple(sorted(name for name in pool.limits if name != "nodes"))
            self._price_lists[listed] = offer_set.derived(PriceLists).of(self._keys, limits, zonal=self._zonal)
        prices, open_to = self._price_lists[listed], self._open[offer_set, bits]
        if closed:
            codes, zones = columns_of(offer_set).codes(names.ZONE)
            open_to = open_to & np.array([zone not in closed for zone in zones], dtype=bool)[codes]
        if is_spot(own):
            found = [own, *prices.holding_spot(own, need, open_to, self._allowance(choice))]
        else:
            found = [own, *prices.holding(own, need, open_to)[: MOST_ALTERNATIVES - 1]]
        least = pool.min_values
        if least:
            others = [
                one
                for one in self._state.replacement_offers(choice, node.planned)
                if one not in found and one.offering.tenancy == own.offering.tenancy and _holds(one, need)
            ]
            others.sort(
                key=lambda one: (
                    one.offering.zone in closed,
                    _heavier(one, own, pool.limits),
                    not bits >> one.index & 1,
                    one.offer,
                    one.index,
                )
            )
            found = _limit_types([*found, *_more_choice(found, others, least)], least)
        return found

    def _allowance(self, choice: OfferChoice) -> tuple[float, ...]:
        """Return how much more a spot node may cost ($/h), and how much more of each limited resource it may have."""
        limits = sorted(name for name in choice.pool_offers.pool.limits if name != "nodes")
        return (self._spare.more_per_hour(), *(self._spare.more(choice.pool_offers, name) for name in limits))


class PriceList:
    """The offers of one pool in order of price, for plans in which these labels distinguish nodes and these resources
    are limited."""

    def __init__(
        self,
        offers: Sequence[NodeOffer],
        columns: OfferColumns,
        keys: Sequence[str],
        limits: Sequence[str],
        *,
        zonal: bool,
    ) -> None:
        self._offers = offers
        self._order: Whole = np.array(sorted(range(len(offers)), key=lambda at: _rank(offers[at])), dtype=np.int64)
        self._free = columns.free[self._order]
        self._prices = columns.price[self._order]
        self._endless = ~columns.limited[self._order]
        kinds: dict[object, int] = {}
        label_codes = (
            zip(*(columns.codes(key)[0].tolist() for key in keys), strict=True) if keys else [()] * len(offers)
        )
        kind_of = [
            kinds.setdefault(
                (one.offering.capacity_type, one.offering.tenancy, one.daemons, codes, _zone(one) if zonal else ""),
                len(kinds),
            )
            for one, codes in zip(offers, label_codes, strict=True)
        ]
        self._kinds: Whole = np.array(kind_of, dtype=np.int64)[self._order]
        self._counted = np.stack([np.zeros(len(offers)), *(columns.capacity(name) for name in limits)], axis=1)[
            self._order
        ]
        self._place = np.argsort(self._order)
        ranked = [offers[at] for at in self._order]
        self._exotic: Marks = np.array(
            [bool(exotic_kinds(one.model.name, one.model.labels)) for one in ranked], dtype=bool
        )
        self._on_demand: Marks = np.array([one.offering.capacity_type == names.ON_DEMAND for one in ranked], dtype=bool)
        self._alike: dict[int, tuple[Whole, Floats]] = {}

    def holding(self, own: NodeOffer, need: Sequence[int], open_to: Marks) -> list[NodeOffer]:
        """Return the alternatives of an offer, the cheapest first, without the offer itself.

        An alternative has about the same price, an equal value of each label that a rule or preference uses, and
        the same daemons. It uses no more of the pool's limits, has at least ``need``, and is open to the groups in
        ``open_to``.
        """
        known = self._alike.get(own.index)
        if known is None:
            position = self._place[own.index]
            same = (
                self._endless
                & (self._kinds == self._kinds[position])
                & (self._prices <= self._prices[position] * (1 + PRICE_TOLERANCE))
            )
            same &= (self._counted <= self._counted[position]).all(axis=1)
            same[position] = False
            known = self._alike[own.index] = self._order[same], self._free[same]
        alike, free = known
        held = (free >= need).all(axis=1) & open_to[alike]
        return [self._offers[position] for position in alike[held][: MOST_ALTERNATIVES - 1].tolist()]

    def holding_spot(
        self, own: NodeOffer, need: Sequence[int], open_to: Marks, allowance: Sequence[float]
    ) -> list[NodeOffer]:
        """Return the alternatives of a spot offer, the cheapest first, without the offer itself.

        ``allowance``: how much more a node may cost, and how much more of each limited resource it may have.
        """
        position = self._place[own.index]
        held = (self._free >= need).all(axis=1) & open_to[self._order]
        most = limit_price(
            self._prices[held & self._on_demand], own.offering.price_per_hour, PRICE_TOLERANCE, allowance[0]
        )
        counted = np.array([0.0, *allowance[1:]])
        same = held & self._endless & (self._kinds == self._kinds[position]) & (self._prices <= most)
        same &= (self._counted <= self._counted[position] + counted).all(axis=1)
        if not self._exotic[position]:
            same &= ~self._exotic
        same[position] = False
        return choose_offers([self._offers[at] for at in self._order[same].tolist()], own)


class PriceLists:
    """The price lists of one offer set, the latest ones."""

    def __init__(self, offer_set: OfferSet) -> None:
        self._offers = offer_set.launchable
        self._columns = columns_of(offer_set)
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...], bool], PriceList] = {}

    def of(self, keys: tuple[str, ...], limits: tuple[str, ...], *, zonal: bool) -> PriceList:
        """Return the price list for plans in which these labels distinguish nodes and these resources are limited."""
        if (keys, limits, zonal) not in self._known:
            if len(self._known) >= MOST_PRICE_LISTS:
                del self._known[next(iter(self._known))]
            self._known[keys, limits, zonal] = PriceList(self._offers, self._columns, keys, limits, zonal=zonal)
        return self._known[keys, limits, zonal]


def _zone(one: NodeOffer) -> str:
    """Return the zone of an on-demand offer. Spot Instances are chosen from all zones: more pools of capacity mean
    fewer interruptions."""
    return one.offering.zone if one.offering.capacity_type == names.ON_DEMAND else ""


def _rank(one: NodeOffer) -> tuple[float, str, str, str, int]:
    offering = one.offering
    return (offering.price_per_hour, one.model.name, offering.zone, offering.capacity_type, one.index)


def _holds(one: NodeOffer, need: Sequence[int]) -> bool:
    return all(amount <= there for amount, there in zip(need, one.free, strict=True))


def _heavier(one: NodeOffer, own: NodeOffer, limits: Iterable[str]) -> bool:
    """Return whether an offer uses more of some limit than the plan counts. Such an offer is an alternative only for
    minValues, and is sorted last."""
    return any(one.capacity.get(name, 0) > own.capacity.get(name, 0) for name in limits)


def _more_choice(found: Sequence[NodeOffer], holding: Sequence[NodeOffer], least: Mapping[str, int]) -> list[NodeOffer]:
    """Return the cheapest other offers that add a value of a label with minValues, until minValues is satisfied."""
    more: list[NodeOffer] = []
    for one in holding:
        if meets_min_values((*found, *more), least):
            break
        short = [
            key
            for key, number in least.items()
            if len({other.label(key) for other in (*found, *more)} - {None}) < number
        ]
        if any(one.label(key) not in {other.label(key) for other in (*found, *more)} for key in short):
            more.append(one)
    return more


def _limit_types(found: Sequence[NodeOffer], least: Mapping[str, int]) -> list[NodeOffer]:
    """Return the offers of at most as many types as a launch may have, in their order: those that minValues requires,
    and the first others."""
    if len({one.model.name for one in found}) <= MOST_TYPES:
        return list(found)
    own, *others = found
    values = {key: {own.label(key)} for key in least}
    required = [own.model.name]
    while others:
        short = [key for key, known in values.items() if len(known - {None}) < least[key]]
        gains = [sum(one.label(key) not in (*values[key], None) for key in short) for one in others]
        if not max(gains):
            break
        chosen = others.pop(gains.index(max(gains)))  # the first of those that are short of the most labels
        required.append(chosen.model.name)
        for key in least:
            values[key].add(chosen.label(key))
    kept = set([*dict.fromkeys((*required, *(one.model.name for one in found)))][:MOST_TYPES])
    return [one for one in found if one.model.name in kept]
