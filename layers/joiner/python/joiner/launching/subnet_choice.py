"""Choose how many nodes a launch has, and the subnet of each zone in which it creates them.

A fleet request names one subnet for each zone: EC2 refuses two as duplicate instance pools. If a class has several
subnets in a zone, the launches of one plan share them: each takes the subnet with the most addresses that earlier
launches leave, and no more nodes than have an address there. Classes may share subnets; so a launch takes no address
that the other launches of the plan need. Subnets whose nodes get a public address are used only where no others have an
address, and vice versa: the kind whose price the plan knows comes first.

The plan counts the nodes of a launch in its preferred zone, that of its first offering, and leaves an address for each
node in the zones of its alternatives. So these zones limit the number of nodes of a launch, too, if their subnets
together suffice for all nodes of the group: further launches take the next subnets. Alternative zones whose subnets do
not suffice are left out of the launches that have no subnet for all of their nodes there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joiner.launching.address_division import AddressDivision, Demand
from joiner.pools import ResolvedNodeClass, Subnet


@dataclass(frozen=True, slots=True)
class LaunchSubnets:
    """The subnets of one launch by zone, and its number of nodes. ``short`` are alternative zones whose subnet has
    fewer addresses left than that, the least preferred zone first."""

    count: int
    by_zone: Mapping[str, Subnet]
    short: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ZoneSubnets:
    """The subnets of a class in one zone, and the nodes of a group there."""

    zone: str
    there: tuple[Subnet, ...]
    demand: Demand

    @classmethod
    def list(cls, resolved: ResolvedNodeClass, zones: Iterable[str]) -> list["ZoneSubnets"]:
        """Return the subnets of each zone that has some, in the same order. The first zone is the preferred one."""
        found: list[ZoneSubnets] = []
        for zone in dict.fromkeys(zones):
            if there := resolved.subnets_in(zone):
                subnets = frozenset(subnet.id for subnet in there)
                found.append(cls(zone, there, Demand(subnets, alternative=bool(found))))
        return found

    @property
    def free(self) -> dict[str, float]:
        """Return the free addresses by subnet."""
        return {one.id: float("inf") if one.free_ips is None else one.free_ips for one in self.there}


class SubnetChoice:
    """The subnets of the launches of one plan."""

    def __init__(self) -> None:
        self._zones: defaultdict[str, AddressDivision] = defaultdict(AddressDivision)

    def announce(self, resolved: ResolvedNodeClass, zones: Iterable[str], nodes: int) -> None:
        """Announce a group of nodes, before anything is taken. ``zones`` are in the order of preference."""
        for one in ZoneSubnets.list(resolved, zones):
            self._zones[one.zone].add(one.demand, nodes, one.free)

    def take(self, resolved: ResolvedNodeClass, zones: Iterable[str], most: int) -> LaunchSubnets:
        """Return the subnets for a launch of at most so many nodes of an announced group. Zones without a subnet are
        left out."""
        places = ZoneSubnets.list(resolved, zones)
        chosen = {one.zone: self._choose(one, most) for one in places}
        preferred = next((one for one in places if chosen[one.zone][1]), places[0])
        count = chosen[preferred.zone][1] or most  # if no zone has any address, EC2 reports it once
        short: list[str] = []
        for one in [one for one in places if one is not preferred]:
            chosen[one.zone] = _, held = self._choose(one, count)
            if held and held < count and self._zones[one.zone].suffices(one.demand):
                count = held
            elif held < count:
                short.append(one.zone)
        for one in places:
            subnet = chosen[one.zone][0]
            self._zones[one.zone].take(one.demand, count, None if one.zone in short else subnet.id)
        return LaunchSubnets(count, {zone: subnet for zone, (subnet, _) in chosen.items()}, tuple(reversed(short)))

    def _choose(self, one: ZoneSubnets, count: int) -> tuple[Subnet, int]:
        """Return the subnet of a zone for a launch of so many nodes, and how many of them can have an address there."""
        division = self._zones[one.zone]
        best, most = one.there[0], 0
        for usual in (True, False):
            there = [subnet for subnet in one.there if (subnet.public == one.there[0].public) is usual]
            there.sort(key=lambda subnet: (subnet.free_ips is None, -division.left(subnet.id), subnet.id))
            for subnet in there if not most else ():
                held = division.most(one.demand, subnet.id, count)
                if held > most:
                    best, most = subnet, held
                if held >= count:
                    break
        return best, most
