"""Which offers of bare metal and with accelerators a new node may have: those that its pods or the pool ask for.

A group of pods may *open* a node of such an offer if the requirements of the pool or of the group name it, or if no
other offer of the pool can hold a pod of the group; this is the case for pods that request a device. All other groups
may *join* the pods of such a group on its node. Offers of capacity reservations are open to all, because the class
selects the reservation. ``catalogue.exotic_types`` has the reasons and the source.

minValues count the types that can hold the pods of a node whether they may be opened or not, as Karpenter's do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from joiner import names
from joiner.catalogue.exotic_types import ACCELERATORS, COMMON, METAL, exotic_kinds, named_kinds, names_kinds
from joiner.cluster import Requirements
from joiner.cluster.resources import CPU, MEMORY
from joiner.planning.model.blast_radius import find_host_neighbours
from joiner.planning.model.node_offers import NodeOffer, OfferSet, Openings
from joiner.planning.model.pod_groups import PodGroup, sum_needs
from joiner.planning.model.position_bits import as_bits
from joiner.pools import NodePool

Needs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ExoticType:
    """The offers of one exotic instance type, as bits, without those of capacity reservations."""

    labels: Mapping[str, str]
    kinds: frozenset[str]
    offers: int


class ExoticOffers:
    """The exotic offers of one offer set."""

    def __init__(self, offer_set: OfferSet) -> None:
        found: dict[str, list[NodeOffer]] = {}
        kinds: dict[str, frozenset[str]] = {}
        for one in offer_set.launchable:
            name = one.model.name
            if name not in kinds:
                kinds[name] = exotic_kinds(name, one.model.labels)
            if kinds[name] and not one.offering.reservation:
                found.setdefault(name, []).append(one)
        self._types = [
            ExoticType(mine[0].model.labels, kinds[name], as_bits([one.index for one in mine]))
            for name, mine in found.items()
        ]
        self.every = sum(one.offers for one in self._types)
        unlimited = sorted((one for one in offer_set.launchable if one.supply is None), key=_size, reverse=True)
        self._common = [one for one in unlimited if not kinds[one.model.name]]
        self._exotic = [one for one in unlimited if kinds[one.model.name]]
        self._having: dict[int, int] = {}

    def unnamed(self, requirements: Iterable[Requirements]) -> dict[str, int]:
        """Return by kind the offers of which no one of these requirements names the kind, as bits."""
        listed = [one for one in requirements if names_kinds(one)]
        left = {METAL: 0, ACCELERATORS: 0}
        for one in self._types:
            named = COMMON.union(*(named_kinds(one.labels, each) for each in listed))
            for kind in one.kinds - named:
                left[kind] |= one.offers
        return left

    def is_held(self, needs: Needs, offers: int) -> bool:
        """Return whether one of these offers, as bits, can hold pods with such needs."""
        for position, _ in needs:
            offers &= self._with_resource(position)
        if offers & ~self.every and _find_holder(needs, offers, self._common):
            return True
        return bool(offers & self.every) and _find_holder(needs, offers, self._exotic)

    def _with_resource(self, position: int) -> int:
        """Return the offers with some of a resource, as bits: few have devices."""
        if position not in self._having:
            having = sorted(one.index for one in (*self._common, *self._exotic) if one.free[position] > 0)
            self._having[position] = as_bits(having)
        return self._having[position]


def _size(one: NodeOffer) -> int:
    return one.allocatable.get(CPU, 0) * one.allocatable.get(MEMORY, 0)


def _find_holder(needs: Needs, offers: int, by_size: Sequence[NodeOffer]) -> bool:
    """Return whether one of these offers, of those in the bits, can hold pods with such needs. Large ones hold most."""
    return any(
        offers >> one.index & 1 and all(one.free[position] >= amount for position, amount in needs) for one in by_size
    )


def find_openings(
    pool: NodePool, offer_set: OfferSet, groups: Sequence[PodGroup], accepted: Mapping[int, int]
) -> Openings:
    """Return what each group may open and join, of the offers that it accepts (by its index, as bits)."""
    exotic = offer_set.derived(ExoticOffers)
    every = offer_set.every
    if not exotic.every or pool.planning.every_type:
        return Openings(accepted, accepted, accepted, every)
    of_pool = exotic.unnamed([pool.requirements])
    named: dict[tuple[Requirements, ...], dict[str, int]] = {}

    def unnamed(group: PodGroup) -> dict[str, int]:
        own = tuple(one for one in group.where if names_kinds(one))
        if own not in named:
            named[own] = exotic.unnamed([pool.requirements, *own]) if own else of_pool
        return named[own]

    neighbours = find_host_neighbours(groups)
    memory: dict[object, int] = {}

    def openings(group: PodGroup) -> int:
        mine = accepted[group.index]
        needs = _needs_together(neighbours[group]) if group in neighbours else group.needs
        closed, found = unnamed(group), 0
        for domain in _domains_of(group, offer_set, every):
            known = (tuple(needs), mine & domain, *closed.values())
            if known not in memory:
                memory[known] = _openings_of(exotic, needs, mine & domain, closed)
            found |= memory[known]
        return found

    opens = {group.index: openings(group) for group in groups}
    opened = 0
    for group in groups:
        if opens[group.index] & ~opened and group.constraints.untolerated(pool.taints) is None:
            opened |= opens[group.index]
    joined = {group.index: accepted[group.index] & (opens[group.index] | opened) for group in groups}
    return Openings(joined, opens, accepted, _openings_of(exotic, (), every, of_pool))


def _openings_of(exotic: ExoticOffers, needs: Needs, accepted: int, unnamed: Mapping[str, int]) -> int:
    """Return the offers of which a pod with these needs may open a node: common and named ones if one of them can hold
    it; else those that are bare metal or have accelerators, but not both, if one of them can; else all."""
    left = accepted & ~(unnamed[METAL] | unnamed[ACCELERATORS])
    if left == accepted or exotic.is_held(needs, left):
        return left
    of_one_kind = [accepted & ~unnamed[kind] for kind in (METAL, ACCELERATORS)]
    held = [one for one in of_one_kind if exotic.is_held(needs, one)]
    return reduce(or_, held, 0) or accepted


def _domains_of(group: PodGroup, offer_set: OfferSet, every: int) -> list[int]:
    """Return the offers of each domain in which the group may need a node of its own, as bits: of each zone, or of each
    capacity type, if the group has a rule about such domains; else of all."""
    constraints = group.constraints
    keys = {spread.topology_key for spread in constraints.spreads}
    keys |= {term.topology_key for term in (*constraints.affinity, *constraints.anti_affinity)}
    domains = [every]
    for key in sorted(keys - {names.HOSTNAME}):
        by_value, missing = offer_set.positions(key)
        if by_value:
            domains = [one & part for one in domains for part in (*by_value.values(), missing) if one & part]
    return domains


def _needs_together(groups: Sequence[PodGroup]) -> Needs:
    """Return what one offer must hold for all pods of these groups, which rules may force onto one host."""
    total = sum_needs(((one, len(one.pods)) for one in groups), len(groups[0].vector))
    return [(position, amount) for position, amount in enumerate(total) if amount]
