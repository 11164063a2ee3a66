"""Keep the nodes of a plan within the free addresses of their subnets.

Each node takes one address of the subnet in which it is launched: the one with the most free addresses in its zone.
EC2 refuses nodes beyond that. So this step moves them to other zones, those whose price rises least first; the capacity
type stays. A node that cannot move is not launched: its pods, and pods whose rules depended on them, stay pending until
the next plan. Pods of low priority give way first.

Pods take addresses, too, but perhaps of other subnets (custom networking), or fewer (prefixes, IPv6). So nodes move for
the addresses of their pods only to offers that cost no more, and a warning reports what is left.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.node_exchange import NodeExchange, offers_for
from joiner.planning.plan import TEMPORARY, Reason
from joiner.planning.state.constraint_check import find_misplaced
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import TINY
from joiner.pools import ResolvedNodeClass, Subnet

AddressesOf = Callable[[NodeState], int]


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """How many nodes were moved to other zones, and why pods of closed nodes are left, by group."""

    moved: int = 0
    reasons: Mapping[PodGroup, tuple[Reason, ...]] = field(default_factory=dict)


def keep_addresses(state: PlanState, classes: Mapping[str, ResolvedNodeClass]) -> AddressLimits:
    """Move nodes out of subnets whose addresses do not suffice, and close those that have none."""
    if not any(subnet.free_ips is not None for resolved in classes.values() for subnet in resolved.subnets):
        return AddressLimits()
    use = SubnetUse(state, classes)
    use.relieve(lambda node: 1 + sum(node.planned.values()), most_extra=0.0)
    reasons = use.close_excess(use.relieve(lambda _: 1, most_extra=float("inf")))
    return AddressLimits(use.moved, reasons)


@dataclass(slots=True)
class SubnetUse:
    """The subnets of a plan's new nodes."""

    state: PlanState
    classes: Mapping[str, ResolvedNodeClass]
    moved: int = 0
    _exchange: NodeExchange = field(init=False)

    def __post_init__(self) -> None:
        self._exchange = NodeExchange(self.state)

    def relieve(self, addresses: AddressesOf, *, most_extra: float) -> list[NodeState]:
        """Move nodes to other subnets, each for at most `most_extra` $/h, while a subnet has too few addresses for
        `addresses` of each node. Return the nodes that are too many and stay."""
        used, free = self._count(addresses)
        stay: list[NodeState] = []
        moves = [(node, subnet) for node in self.state.new if (subnet := self._subnet_of(node)) is not None]
        for node, subnet in sorted(moves, key=lambda one: (-addresses(one[0]), one[0].name)):
            if used[subnet.id] <= free.get(subnet.id, used[subnet.id]):
                continue
            number = addresses(node)
            left = {subnet_id: most - used[subnet_id] for subnet_id, most in free.items()}
            other = self._move(node, number, left, most_extra=most_extra)
            if other is None:
                stay.append(node)
                continue
            used[subnet.id] -= number
            used[other.id] += number
            self.moved += 1
        over = {subnet: number - free[subnet] for subnet, number in used.items() if number > free.get(subnet, number)}
        return [node for node in stay if (subnet := self._subnet_of(node)) is not None and subnet.id in over]

    def close_excess(self, nodes: list[NodeState]) -> dict[PodGroup, tuple[Reason, ...]]:
        """Close as many of these nodes as have no address, those of the lowest priority and with the fewest pods first.
        Return why their pods, and the pods that may not stay without them, are left.
        """
        reasons: dict[PodGroup, tuple[Reason, ...]] = {}
        used, free = self._count(lambda _: 1)
        for node in sorted(nodes, key=_importance):
            subnet, choice = self._subnet_of(node), node.choice
            full = subnet is not None and used[subnet.id] > free.get(subnet.id, used[subnet.id])
            if subnet is None or choice is None or not full or not node.planned:  # without pods: closed already
                continue
            why = f"the subnet {subnet.id} has {subnet.free_ips} free addresses: use larger or more subnets{TEMPORARY}"
            reason = Reason(choice.pool_offers.pool.name, why)
            reasons |= dict.fromkeys(node.planned, (reason,))
            self.state.close(node)
            used[subnet.id] -= 1
            if misplaced := self._take_misplaced():
                reasons |= dict.fromkeys(misplaced, (reason,))
                used, free = self._count(lambda _: 1)
        return reasons

    def _take_misplaced(self) -> list[PodGroup]:
        """Take off the pods that may not stay where they are, until all others may, and close the nodes that this
        empties. Return their groups.
        """
        taken: list[PodGroup] = []
        while misplaced := find_misplaced(self.state):
            for node, group in misplaced:
                self.state.take(group, node, node.planned.get(group, 0))
                taken.append(group)
        for node in [one for one in self.state.new if not one.planned] if taken else []:
            self.state.close(node)
        return taken

    def _count(self, addresses: AddressesOf) -> tuple[Counter[str], dict[str, int]]:
        """Return how many addresses the new nodes take in each subnet, those of static pools and standalone claims
        included, and how many of each are free, if known."""
        used: Counter[str] = Counter()
        for node in (*self.state.new, *(one for one in self.state.existing if one.made)):
            if (subnet := self._subnet_of(node)) is not None:
                used[subnet.id] += addresses(node)
        known = (subnet for resolved in self.classes.values() for subnet in resolved.subnets)
        return used, {subnet.id: subnet.free_ips for subnet in known if subnet.free_ips is not None}

    def _subnet_of(self, node: NodeState) -> Subnet | None:
        choice = node.choice or node.made
        return self._subnet_in(choice, choice.one.offering.zone) if choice else None

    def _subnet_in(self, choice: OfferChoice, zone: str) -> Subnet | None:
        resolved = self.classes.get(choice.pool_offers.pool.class_ref.key)
        return resolved.subnet_in(zone) if resolved else None

    def _move(self, node: NodeState, number: int, left: Mapping[str, int], *, most_extra: float) -> Subnet | None:
        """Move a node to the cheapest offer in a subnet with so many addresses left, or with an unknown number; return
        the subnet, or None if there is none, or no rule allows it."""
        choice = node.choice
        if choice is None or choice.one.supply is not None:
            return None
        for one in self._others(node, choice, choice.one.offer.price_per_hour + most_extra):
            subnet = self._subnet_in(choice, one.offering.zone)
            if (
                subnet
                and left.get(subnet.id, number) >= number
                and self._exchange.replace([node], choice.with_offer(one))
            ):
                return subnet
        return None

    @staticmethod
    def _others(node: NodeState, choice: OfferChoice, most: float) -> Iterator[NodeOffer]:
        """Yield the cheapest offer of the same capacity type that holds the node's pods, in each other zone."""
        best: dict[str, NodeOffer] = {}
        for one in offers_for(choice, node.planned):
            zone, known = one.offering.zone, best.get(one.offering.zone)
            if zone == choice.one.offering.zone or one.supply is not None or one.offer.price_per_hour > most + TINY:
                continue
            if one.offering.capacity_type != choice.one.offering.capacity_type:  # a pool's capacity mix is kept
                continue
            if known is None or (one.offer, one.index) < (known.offer, known.index):
                best[zone] = one
        yield from sorted(best.values(), key=lambda one: (one.offer, one.index))


def _importance(node: NodeState) -> tuple[int, int, str]:
    """Return the highest priority of a node's pods, their number and its name."""
    priorities = (group.constraints.priority for group in node.planned)
    return max(priorities, default=0), sum(node.planned.values()), node.name
