"""Count the addresses that new nodes take in their subnets.

Each node takes one address of a subnet of its class in its zone. A class may have several subnets in a zone, and each
launch takes the one with the most addresses left, so their sum matters. Classes may share subnets: the addresses
suffice if no union of such sets of subnets has more nodes than free addresses (Hall's theorem).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from joiner.planning.model.node_offers import OfferChoice
from joiner.pools import ResolvedNodeClass

Place = frozenset[str]
"""The ids of the subnets among which a launch chooses for one zone."""

MOST_UNIONS: Final = 64
"""The maximum number of unions of places that share subnets. Beyond it, only each place and all of them are checked."""


class AddressUse:
    """The free addresses of the classes' subnets, and those that nodes take."""

    def __init__(self, classes: Mapping[str, ResolvedNodeClass]) -> None:
        self._places: dict[tuple[str, str], Place] = {}
        self._free: dict[str, int] = {}
        zones: dict[str, set[Place]] = {}
        for key, resolved in classes.items():
            for zone in {subnet.zone for subnet in resolved.subnets}:
                there = resolved.subnets_in(zone)
                self._free |= {subnet.id: subnet.free_ips for subnet in there if subnet.free_ips is not None}
                if all(subnet.free_ips is not None for subnet in there):
                    place = self._places[key, zone] = frozenset(subnet.id for subnet in there)
                    zones.setdefault(zone, set()).add(place)
        self._unions = [union for places in zones.values() for union in _unions(places)]
        self._taken: Counter[Place] = Counter()

    @property
    def known(self) -> bool:
        """Return whether the number of free addresses is known in any zone."""
        return bool(self._places)

    def count(self, choice: OfferChoice, number: int, zone: str = "") -> None:
        """Add the addresses of a node of this choice, or of such a node in another zone."""
        if (place := self._place(choice, zone)) is not None:
            self._taken[place] += number

    def left(self, choice: OfferChoice, zone: str = "") -> float:
        """Return how many addresses are left for nodes of this choice; infinity if the number is not known. It is
        negative if too many are taken."""
        place = self._place(choice, zone)
        return float("inf") if place is None else self._left_for(place)

    def shortages(self) -> Iterator[tuple[str, int]]:
        """Yield each set of subnets in which too many addresses are taken: its description, and how many nodes that
        have no other subnets take. A set that lacks no more than the sets within it together is left out."""
        lacking: dict[Place, int] = {}
        for union in sorted(self._unions, key=lambda one: (len(one), sorted(one))):
            lack = -self._left_in(union)
            within = sum(more for smaller, more in lacking.items() if smaller < union)
            if lack > within:
                lacking[union] = lack - within
                yield self._describe(union), lack + self._free_in(union)

    def describe(self, choice: OfferChoice) -> str:
        """Return the subnets of this choice and their number of free addresses."""
        return self._describe(self._place(choice, "") or frozenset())

    def _describe(self, place: Place) -> str:
        subnets, free = sorted(place), self._free_in(place)
        if len(subnets) == 1:
            return f"the subnet {subnets[0]} has {free} free addresses"
        return f"the subnets {' and '.join(subnets)} have {free} free addresses"

    def full_zones(self, key: str) -> frozenset[str]:
        """Return the zones in which the class of this key has no address left."""
        return frozenset(
            zone for (name, zone), place in self._places.items() if name == key and self._left_for(place) <= 0
        )

    def _place(self, choice: OfferChoice, zone: str) -> Place | None:
        return self._places.get((choice.pool_offers.pool.class_ref.key, zone or choice.one.offering.zone))

    def _left_for(self, place: Place) -> int:
        return min(self._left_in(union) for union in self._unions if place <= union)

    def _left_in(self, union: Place) -> int:
        taken = sum(number for place, number in self._taken.items() if place <= union)
        return self._free_in(union) - taken

    def _free_in(self, place: Place) -> int:
        return sum(self._free[subnet] for subnet in place)


def _unions(places: Iterable[Place]) -> set[Place]:
    """Return the unions of places that share subnets. If the addresses of two places suffice and no place has subnets
    of both, those of their union suffice, too.

    >>> sorted(map(sorted, _unions([frozenset("ab"), frozenset("bc"), frozenset("d")])))
    [['a', 'b'], ['a', 'b', 'c'], ['b', 'c'], ['d']]
    """
    return {union for connected in _connected(places) for union in _unions_of_connected(connected)}


def _connected(places: Iterable[Place]) -> list[set[Place]]:
    """Return the places in groups; places of different groups share no subnets."""
    groups: list[set[Place]] = []
    for place in places:
        joined = {place}
        apart = []
        for group in groups:
            if any(place & other for other in group):
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return groups


def _unions_of_connected(places: set[Place]) -> set[Place]:
    found, ahead = set(places), list(places)
    while ahead:
        union = ahead.pop()
        more = {union | place for place in places if union & place} - found
        found |= more
        ahead += more
        if len(found) > MOST_UNIONS:
            return places | {frozenset().union(*places)}
    return found
