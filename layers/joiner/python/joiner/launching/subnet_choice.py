"""Choose the subnet of each zone in which a launch creates its nodes.

A fleet request names one subnet for each zone. If a class has several subnets in a zone, the launches of one plan share
them: each takes the subnet with the most addresses that earlier launches leave. Of subnets that differ in whether nodes
get a public address, the kind whose price the plan knows comes first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from joiner.pools import ResolvedNodeClass, Subnet


class SubnetChoice:
    """The subnets of the launches of one plan."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def take(self, resolved: ResolvedNodeClass, zones: Iterable[str], count: int) -> Mapping[str, Subnet]:
        """Return the subnet of each zone for a launch of so many nodes. Zones without a subnet are left out."""
        chosen: dict[str, Subnet] = {}
        for zone in dict.fromkeys(zones):
            there = resolved.subnets_in(zone)
            if there:
                subnet = min(there, key=lambda one: self._rank(one, there[0], count))
                self._taken[subnet.id] += count
                chosen[zone] = subnet
        return chosen

    def _rank(self, subnet: Subnet, usual: Subnet, count: int) -> tuple[bool, bool, int, str]:
        left = (subnet.free_ips or 0) - self._taken[subnet.id]
        return subnet.free_ips is not None and left < count, subnet.public != usual.public, -left, subnet.id


def most_nodes(resolved: ResolvedNodeClass, zones: Iterable[str]) -> int | None:
    """Return how many nodes one launch may have, so that one subnet of several in a zone has addresses for all of them;
    None if no zone has several subnets. Where a zone has one subnet only, the plan counts its addresses."""
    several = [there for zone in zones if len(there := resolved.subnets_in(zone)) > 1]
    return min((max(there[0].free_ips, 1) for there in several if there[0].free_ips is not None), default=None)
