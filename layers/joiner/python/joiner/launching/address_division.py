"""Divide the free addresses of the subnets of a zone among the nodes of all launches of a plan.

Nodes of different classes may share only some subnets. If the nodes that may use many subnets took the shared addresses
first, those that may use few would find none, although a division exists. So each launch takes only addresses that the
others do not need. This is a maximum flow from nodes to subnets, which augmenting paths find (Ford and Fulkerson).
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Free = dict[str, float]
"""Free addresses by subnet; infinity where the number is unknown."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Nodes that need an address of one of these subnets. ``alternative`` nodes are launched there only if EC2 prefers
    this zone to their first one; they come last."""

    subnets: frozenset[str]
    alternative: bool


class AddressDivision:
    """The subnets of a zone, and the nodes of the launches that are not made yet."""

    def __init__(self) -> None:
        self._free: Free = {}
        self._nodes: Counter[Demand] = Counter()
        self._whole: tuple[float, float] | None = None

    def add(self, demand: Demand, nodes: int, free: Mapping[str, float]) -> None:
        """Add nodes that will be launched, and the free addresses of their subnets."""
        self._nodes[demand] += nodes
        self._free |= free
        self._whole = None

    def left(self, subnet: str) -> float:
        """Return how many addresses of a subnet no launch has taken yet."""
        return self._free[subnet]

    def suffices(self, demand: Demand) -> bool:
        """Return whether each of these nodes can have an address, after the nodes that are not alternatives."""
        return Division(self._free).serve(self._nodes, first=demand)[demand] == self._nodes[demand]

    def most(self, demand: Demand, subnet: str, wanted: int) -> int:
        """Return how many of these nodes, at most ``wanted``, may be launched in a subnet so that as many of the others
        as possible still get an address."""
        low, high = 0, int(min(wanted, self._nodes[demand], self._free[subnet]))
        if not high or self._wanting(subnet) <= self._free[subnet]:
            return high  # the subnet suffices for all nodes that may be there
        if self._whole is None:
            self._whole = self._serve(demand, subnet, 0)  # the same for each demand and subnet
        middle = high  # in most cases no other nodes need these addresses
        while low < high:
            if self._serve(demand, subnet, middle) == self._whole:
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low

    def take(self, demand: Demand, nodes: int, subnet: str | None) -> None:
        """Launch nodes in this subnet; without one, only count them as launched."""
        self._whole = None
        self._nodes[demand] -= nodes
        if subnet is not None:
            self._free[subnet] = max(0, self._free[subnet] - nodes)

    def _wanting(self, subnet: str) -> int:
        """Return how many nodes may be launched in a subnet."""
        return sum(nodes for demand, nodes in self._nodes.items() if subnet in demand.subnets)

    def _serve(self, demand: Demand, subnet: str, nodes: int) -> tuple[float, float]:
        """Return how many nodes get an address, first those that are not alternatives and then all, if so many of
        these nodes are in this subnet."""
        free = self._free | {subnet: self._free[subnet] - nodes}
        served = Division(free).serve(self._nodes - Counter({demand: nodes}))
        required = sum(number for one, number in served.items() if not one.alternative)
        return required + nodes * (not demand.alternative), sum(served.values()) + nodes


class Division:
    """A division of free addresses, which grows by augmenting paths."""

    def __init__(self, free: Free) -> None:
        self._free = dict(free)
        self._given: dict[Demand, Free] = defaultdict(dict)

    def serve(self, nodes: Mapping[Demand, int], first: Demand | None = None) -> dict[Demand, float]:
        """Return how many of the nodes get an address: as many as possible of those that are not alternatives, then of
        all. ``first`` precedes the other alternatives."""
        served: dict[Demand, float] = {}
        for demand in sorted(nodes, key=lambda one: (one.alternative, one != first)):
            left: float = nodes[demand]
            while left > 0 and (path := self._find_path(demand)):
                left -= self._augment(path, left)
            served[demand] = nodes[demand] - left
        return served

    def _find_path(self, start: Demand) -> list[tuple[Demand, str]]:
        """Return the shortest path to a free address: each node's demand takes an address of the subnet, which the
        next demand of the path gives up. It is empty if there is none."""
        came: dict[str, tuple[Demand, str]] = {}  # by subnet: the demand that takes it, and the subnet that it gives up
        ahead = deque([(start, "")])
        seen = {start}
        while ahead:
            demand, given_up = ahead.popleft()
            for subnet in sorted(demand.subnets - came.keys()):
                came[subnet] = demand, given_up
                if self._free[subnet] > 0:
                    return list(_walk_back(came, subnet))
                for other, given in self._given.items():
                    if other not in seen and given.get(subnet, 0) > 0:
                        seen.add(other)
                        ahead.append((other, subnet))
        return []

    def _augment(self, path: list[tuple[Demand, str]], most: float) -> float:
        """Let each demand of the path take addresses of its subnet; return how many."""
        changes = [(demand, old) for (demand, _), (_, old) in pairwise(path)]
        amount = min(most, self._free[path[0][1]], *(self._given[demand][old] for demand, old in changes))
        self._free[path[0][1]] -= amount
        for demand, subnet in path:
            self._given[demand][subnet] = self._given[demand].get(subnet, 0) + amount
        for demand, subnet in changes:
            self._given[demand][subnet] -= amount
        return amount


def _walk_back(came: Mapping[str, tuple[Demand, str]], subnet: str) -> Iterable[tuple[Demand, str]]:
    """Yield the demands of a path and the subnets that they take, the last one first."""
    while subnet:
        demand, given_up = came[subnet]
        yield demand, subnet
        subnet = given_up
