"""Keep the nodes of a plan within the free addresses of their subnets.

Each node takes one address of a subnet of its class in its zone. EC2 refuses nodes beyond that. So this step moves them
to other zones, those whose price rises least first; the capacity type stays. A node that cannot move is closed: its
pods, and pods whose rules depended on them, get places on other nodes of the plan or on nodes of other pools and zones
that have addresses, and then on larger nodes in place of those of the plan (`larger_nodes`). The pods that find none
stay pending until the next plan. Pods of low priority give way first.

Pods take addresses, too, but perhaps of other subnets (custom networking), or fewer (prefixes, IPv6). So nodes move for
the addresses of their pods only to offers that cost no more, and a warning reports what is left.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.node_exchange import NodeExchange, offers_for
from joiner.planning.placement.unrequested_nodes import place_on_every_offer
from joiner.planning.plan import Reason
from joiner.planning.state.address_use import AddressUse
from joiner.planning.state.checkpoint import clear_plan, restore_layout, score_plan
from joiner.planning.state.constraint_check import find_misplaced
from joiner.planning.state.excluded_types import excluded_types, only_opened
from joiner.planning.state.limit_violations import AddressViolation
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import MOST_REPAIRED_PODS, TINY
from joiner.pools import ResolvedNodeClass

AddressesOf = Callable[[NodeState], int]
ZonesOf = Callable[[NodeState, OfferChoice, frozenset[str]], frozenset[str]]
Reasons = dict[PodGroup, tuple[Reason, ...]]

MOST_ROUNDS: Final = 10
"""How often pods of closed nodes are placed, each time without the zones that have become full."""


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """How many nodes were moved to other zones, how many were closed, and why pods of closed nodes are left, by
    group. ``exotic`` says whether pods of closed nodes got nodes of types for which no pod asks."""

    moved: int = 0
    closed: int = 0
    exotic: bool = False
    reasons: Mapping[PodGroup, tuple[Reason, ...]] = field(default_factory=dict)


def keep_addresses(state: PlanState, classes: Mapping[str, ResolvedNodeClass]) -> AddressLimits:
    """Move nodes out of subnets whose addresses do not suffice, close those that have none, and place their pods where
    addresses are left. After that, the addresses limit all nodes that are added to the state."""
    if not AddressUse(classes).known:
        return AddressLimits()
    limits = SubnetUse(state, classes)
    limits.relieve(lambda node: 1 + sum(node.planned.values()), most_extra=0.0)
    limits.relieve(lambda _: 1, most_extra=float("inf"))
    reasons = limits.close_excess()
    exotic = limits.closed > 0 and limits.place_elsewhere(reasons)
    if not limits.closed:
        state.limits.addresses = limits.count()
    left = {one: why for one, why in reasons.items() if state.left[one]}
    return AddressLimits(limits.moved, limits.closed, exotic, left)


def replan_within_addresses(
    state: PlanState,
    found: AddressLimits,
    classes: Mapping[str, ResolvedNodeClass],
    search: Callable[[PlanState], object],
) -> AddressLimits:
    """Plan all pods again, with the addresses as limits from the beginning, where pods are left without one: nodes that
    moved may have taken the only zone that suffices for others. Leave the plan that places more pods in the state; the
    result says what became of the addresses. Only few pods are worth a second search."""
    pods = state.pods_left + sum(sum(node.planned.values()) for node in (*state.existing, *state.new))
    if pods > MOST_REPAIRED_PODS:
        return found
    before, known = score_plan(state), state.limits.addresses
    clear_plan(state)
    limit_addresses(state, classes)
    with excluded_types(state, (), find_full_zones(state)), only_opened(state):
        search(state)
    if score_plan(state).places_more_than(before):
        state.limits.addresses = SubnetUse(state, classes).count()
        left = {one: why for one, why in found.reasons.items() if state.left[one]}
        return replace(found, exotic=False, reasons=left)
    clear_plan(state)
    restore_layout(state, before.layout)
    state.limits.addresses = known
    return found


@dataclass(slots=True)
class SubnetUse:
    """The subnets of a plan's new nodes."""

    state: PlanState
    classes: Mapping[str, ResolvedNodeClass]
    moved: int = 0
    closed: int = 0
    _exchange: NodeExchange = field(init=False)

    def __post_init__(self) -> None:
        self._exchange = NodeExchange(self.state)

    def relieve(self, addresses: AddressesOf, *, most_extra: float) -> None:
        """Move nodes to other subnets, each for at most `most_extra` $/h, while a subnet has too few addresses for
        `addresses` of each node."""
        use = count_addresses(self.classes, (*self.state.new, *self._made()), addresses)
        moves = [(node, node.choice) for node in self.state.new if node.choice]
        for node, choice in sorted(moves, key=lambda one: (-addresses(one[0]), one[0].name)):
            if use.left(choice) >= 0:
                continue
            number = addresses(node)
            other = self._move(node, choice, number, use, most_extra=most_extra)
            if other is not None:
                use.count(choice, -number)
                use.count(other, number)
                self.moved += 1

    def close_excess(self) -> Reasons:
        """Close as many nodes as have no address, those of the lowest priority and with the fewest pods first. Return
        why their pods, and the pods that may not stay without them, are left.
        """
        reasons: Reasons = {}
        use = self.count()
        for node in sorted(self.state.new, key=_importance):
            choice = node.choice
            if choice is None or not node.planned or use.left(choice) >= 0:  # without pods: closed already
                continue
            reason = Reason(choice.pool_offers.pool.name, AddressViolation(use.describe(choice)).text())
            reasons |= dict.fromkeys(node.planned, (reason,))
            self.state.close(node)
            self.closed += 1
            use.count(choice, -1)
            if misplaced := self._take_misplaced():
                reasons |= dict.fromkeys(misplaced, (reason,))
                use = self.count()
        return reasons

    def place_elsewhere(self, reasons: Reasons) -> bool:
        """Place the pods that are left where addresses are left; return whether types are used for which no pod asks.
        Pods that may not stay in the end are taken off; they have the first of these reasons."""
        # This module needs numpy, which only the planning functions contain.
        from joiner.planning.placement.larger_nodes import use_larger_nodes

        self.state.limits.addresses = self.count()
        fill_other_zones(self.state)
        use_larger_nodes(self.state)
        exotic = place_on_every_offer(self.state, fill_other_zones)
        first = next(iter(reasons.values()))
        for group in self._take_misplaced():
            reasons.setdefault(group, first)
        return exotic

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

    def count(self) -> AddressUse:
        """Return the addresses that the nodes take."""
        return count_addresses(self.classes, (*self.state.new, *self._made()))

    def _made(self) -> Iterator[NodeState]:
        """Yield the nodes of static pools and standalone claims, which take addresses, too."""
        return (node for node in self.state.existing if node.made)

    def _move(
        self, node: NodeState, choice: OfferChoice, number: int, use: AddressUse, *, most_extra: float
    ) -> OfferChoice | None:
        """Move a node to the cheapest offer in a zone with so many addresses left, or with an unknown number; return
        the new choice, or None if there is none, or no rule allows it."""
        if choice.one.supply is not None:
            return None
        for one in self._others(node, choice, choice.one.offer.price_per_hour + most_extra):
            other = choice.with_offer(one)
            if use.left(other) >= number and self._exchange.replace([node], other):
                return other
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


def limit_addresses(state: PlanState, classes: Mapping[str, ResolvedNodeClass]) -> None:
    """Let the state refuse new nodes for which a subnet has no address. Missing nodes of static pools and of standalone
    claims take theirs first."""
    use = count_addresses(classes, [node for node in state.existing if node.made])
    if use.known:
        state.limits.addresses = use


def find_full_zones(state: PlanState) -> dict[str, frozenset[str]]:
    """Return the zones in which no address is left, by the key of each pool that has such zones."""
    use = state.limits.addresses
    pools = [pool_offers.pool for pool_offers in state.offered_pools] if use is not None else []
    return {pool.key: full for pool in pools if use is not None and (full := use.full_zones(pool.class_ref.key))}


def fill_other_zones(state: PlanState) -> None:
    """Place the pods that are left in zones with addresses, again without the zones that this fills."""
    # These modules need numpy, which only the planning functions contain.
    from joiner.planning.placement.group_order import estimate_sizes
    from joiner.planning.placement.sequential_placement import PlacementStrategy, SequentialPlacer
    from joiner.planning.relaxation.dominance import OfferFrontier

    shares = {group.index: size for group, size in estimate_sizes(state, state.groups.pending).items()}
    for _ in range(MOST_ROUNDS):
        before = state.pods_left
        with only_opened(state):
            SequentialPlacer(state, OfferFrontier(state, find_full_zones(state)), shares, PlacementStrategy()).fill()
        if state.pods_left in (0, before):
            break


def count_addresses(
    classes: Mapping[str, ResolvedNodeClass], nodes: Sequence[NodeState], addresses: AddressesOf = lambda _: 1
) -> AddressUse:
    """Return the addresses that these nodes take in the subnets of their classes."""
    use = AddressUse(classes)
    for node in nodes:
        if (choice := node.choice or node.made) is not None:
            use.count(choice, addresses(node))
    return use


def find_closed_zones(
    classes: Mapping[str, ResolvedNodeClass],
    nodes: Sequence[tuple[NodeState, OfferChoice]],
    zones_of: ZonesOf,
) -> dict[NodeState, frozenset[str]]:
    """Return the zones in which EC2 may not launch each of these nodes instead, because an address there is not left
    for it: each zone in which a node has alternatives takes an address of it. Nodes that may be in all of their zones
    are left out.

    `zones_of` returns the zones of a node's alternatives outside its own zone and these closed ones."""
    use = count_addresses(classes, [node for node, _ in nodes])
    closed: dict[NodeState, frozenset[str]] = {}
    for node, choice in nodes if use.known else ():
        full: frozenset[str] = frozenset()
        others = zones_of(node, choice, full)
        # Without the full zones, the node may get alternatives in zones in which it had none.
        while more := {zone for zone in others - full if use.left(choice, zone) < 1}:
            full |= more
            others = zones_of(node, choice, full)
        for zone in others - full:
            use.count(choice, 1, zone)
        if full:
            closed[node] = full
    return closed


def _importance(node: NodeState) -> tuple[int, int, str]:
    """Return the highest priority of a node's pods (lower for pods that still run), their number and its name."""
    ranks = (group.rank for group in node.planned)
    return -min(ranks, default=0), sum(node.planned.values()), node.name
