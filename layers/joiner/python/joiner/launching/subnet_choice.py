"""Choose how many nodes a launch has, and the subnet of each zone in which it creates them.

A fleet request names one subnet for each zone. If a class has several subnets in a zone, the launches of one plan share
them: each takes the subnet with the most addresses that earlier launches leave, and no more nodes than these. Subnets
whose nodes get a public address are used only where no others have an address, and vice versa: the kind whose price
the plan knows comes first.

A launch takes addresses in its preferred zone only, that of its first offering: the plan counts its nodes there,
on-demand alternatives are in the same zone unless minValues needs others, and a fleet creates only as many nodes as it
has claims in all zones together. Other zones are alternatives, in which the plan leaves an address for each node: they
do not limit the number of nodes, but launches are distributed over their subnets, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from joiner.pools import ResolvedNodeClass, Subnet


@dataclass(frozen=True, slots=True)
class LaunchSubnets:
    """The subnets of one launch by zone, and its number of nodes. ``short`` are alternative zones whose subnet has
    fewer addresses left than that, the least preferred zone first."""

    count: int
    by_zone: Mapping[str, Subnet]
    short: tuple[str, ...] = ()


class SubnetChoice:
    """The subnets of the launches of one plan."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()

    def take(self, resolved: ResolvedNodeClass, zones: Iterable[str], most: int) -> LaunchSubnets:
        """Return the subnets for a launch of at most so many nodes. ``zones`` are in the order of preference; the first
        with an address left is the preferred one. Zones without a subnet are left out."""
        places = {zone: there for zone in dict.fromkeys(zones) if (there := resolved.subnets_in(zone))}
        chosen = {zone: self._with_most_left(there) for zone, there in places.items()}
        preferred = next((zone for zone, subnet in chosen.items() if self._left(subnet) > 0), next(iter(chosen)))
        left = self._left(chosen[preferred])
        count = int(min(most, left)) if left > 0 else most  # if no zone has any, EC2 reports it once
        self._taken[chosen[preferred].id] += count
        short: list[str] = []
        for zone in [one for one in places if one != preferred]:
            chosen[zone] = self._with_most_left(places[zone], count)
            if self._left(chosen[zone]) < count:
                short.append(zone)
            else:
                self._offered[chosen[zone].id] += count
        return LaunchSubnets(count, chosen, tuple(reversed(short)))

    def _left(self, subnet: Subnet) -> float:
        return float("inf") if subnet.free_ips is None else subnet.free_ips - self._taken[subnet.id]

    def _with_most_left(self, there: Sequence[Subnet], count: int = 0) -> Subnet:
        """Return the subnet for a launch; for an alternative with ``count`` nodes, one that has enough addresses and
        is an alternative of few other nodes."""
        free = [one for one in there if self._left(one) > 0] or there
        usual = [one for one in free if one.public == there[0].public] or free

        def rank(subnet: Subnet) -> tuple[bool, bool, float, str]:
            offered = self._offered[subnet.id] if count else 0
            left = (subnet.free_ips or 0) - self._taken[subnet.id] - offered
            return self._left(subnet) < count, subnet.free_ips is None, -left, subnet.id

        return min(usual, key=rank)
