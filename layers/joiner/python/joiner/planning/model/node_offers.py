"""What can be launched, as values: offers, the offers of one pool (made by ``offer_compilation``), and the choice of
one.

For each offer, the groups whose node rules it meets are stored as bits, so that placement does not evaluate labels
again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from operator import sub
from typing import Any, Final, TypeVar

from joiner.catalogue import Offering
from joiner.catalogue.class_compatibility import Exclusion
from joiner.cluster import Resources
from joiner.planning.model.position_bits import as_bits
from joiner.planning.plan import Offer
from joiner.pools import NodeClass, NodePool, ResolvedNodeClass
from joiner.pools.additional_node_costs import NO_COSTS, NodeCosts

Unavailable = frozenset[tuple[str, str, str]]
"""Capacity type, instance type and zone of offerings that are unavailable; ``*`` for type or zone means all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolInstanceType:
    """One instance type in one pool, for all zones and capacity types.

    ``free`` is what its pods can request before daemons, in the order of the plan's resources. ``labels`` do not
    include the labels of zone and capacity type.
    """

    name: str
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    free: tuple[int, ...]


def commitment_key(commitment: str) -> tuple[str, ...]:
    """Return the key of the supply of a commitment."""
    return ("commitment", commitment)


class NodeOffer:
    """One offer of one pool. ``free`` is what its pods can request, without daemon overhead, in the order of the
    plan's resources.

    The price of ``offering`` is that of the whole node; ``costs`` are its parts beside the instance. ``daemons`` are
    positions among the plan's daemons, ``overhead`` is what they request. There are thousands of
    offers and a plan uses few of them, so labels are computed on demand.
    """

    __slots__ = ("_labels", "_offer", "costs", "daemons", "free", "index", "model", "offering", "overhead", "place")

    def __init__(
        self,
        index: int,
        model: PoolInstanceType,
        offering: Offering,
        *,
        free: tuple[int, ...],
        daemons: tuple[int, ...],
        overhead: Resources,
        place: Mapping[str, str],
        costs: NodeCosts = NO_COSTS,
    ) -> None:
        self.index = index
        self.model = model
        self.offering = offering
        self.free = free
        self.daemons = daemons
        self.overhead = overhead
        self.place = place
        self.costs = costs
        self._offer: Offer | None = None
        self._labels: dict[str, str] | None = None

    @property
    def offer(self) -> Offer:
        """Return the offering as plans show it."""
        if self._offer is None:
            offering = self.offering
            self._offer = Offer(
                offering.price_per_hour,
                self.model.name,
                offering.zone,
                offering.capacity_type,
                offering.overlaid,
                offering.committed,
            )
        return self._offer

    @property
    def capacity(self) -> Resources:
        """Return the capacity of a node of this type."""
        return self.model.capacity

    @property
    def allocatable(self) -> Resources:
        """Return what pods and daemons can use of it."""
        return self.model.allocatable

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of its nodes, except those that the pool leaves open."""
        if self._labels is None:
            self._labels = {**self.model.labels, **self.place}
        return self._labels

    @property
    def supply(self) -> int | None:
        """Return the supply in units: the instances left in a reservation, or the amount of a commitment; None means no
        limit."""
        return self.offering.count

    @property
    def units(self) -> int:
        """Return how many units of the supply one node uses."""
        return self.offering.units

    @property
    def supply_key(self) -> tuple[str, ...]:
        """Return a key that is equal for offers that use the same supply, in all pools."""
        offering = self.offering
        if offering.commitment:
            return commitment_key(offering.commitment)
        return (
            ("reservation", offering.reservation)
            if offering.reservation
            else (self.model.name, offering.zone, offering.capacity_type, offering.tenancy)
        )

    def label(self, key: str) -> str | None:
        """Return one label, without computing the others."""
        found = self.place.get(key)
        return self.model.labels.get(key) if found is None else found

    def beside(self, daemons: tuple[int, ...], taken: Iterable[int], overhead: Resources) -> "NodeOffer":
        """Return the offer of nodes with more daemons. ``taken`` is what these request, in the order of the plan's
        resources."""
        return NodeOffer(
            self.index,
            self.model,
            self.offering,
            free=tuple(map(sub, self.free, taken)),
            daemons=tuple(sorted((*self.daemons, *daemons))),
            overhead=self.overhead + overhead,
            place=self.place,
            costs=self.costs,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Openings:
    """The offers of one pool that each group of pods may use, by its index, as bits (``exotic_offers``).

    ``joined`` are the offers of nodes on which its pods may be, and ``opened`` those of which it may open a node.
    ``accepted`` are all offers that its rules accept. ``of_pool`` are the offers of nodes that are launched without
    pods.
    """

    joined: Mapping[int, int]
    opened: Mapping[int, int]
    accepted: Mapping[int, int]
    of_pool: int

    def within(self, kept: int) -> "Openings":
        """Return the openings without other offers than ``kept``."""
        found = self.only({group: offers & kept for group, offers in self.accepted.items()})
        return replace(found, of_pool=self.of_pool & kept)

    def only(self, accepted: Mapping[int, int]) -> "Openings":
        """Return the openings with these offers, of those that each group accepts."""
        joined, opened = (
            {group: offers & accepted[group] for group, offers in each.items()} for each in (self.joined, self.opened)
        )
        return replace(self, joined=joined, opened=opened, accepted=accepted)


@dataclass(frozen=True, slots=True, eq=False)
class PoolVariant:
    """A pool with values for the labels that it leaves open (``labels``), and the offers that each group may use.

    ``offer_set`` has the same offers at the same positions for each variant of a pool, with the daemons that run on
    nodes with its labels."""

    pool: NodePool
    labels: Mapping[str, str]
    offer_set: "OfferSet"
    openings: Openings

    @property
    def launchable(self) -> tuple[NodeOffer, ...]:
        """Return the offers with the daemons of this variant; bits exclude those that are too small for them."""
        return self.offer_set.launchable

    @property
    def bits(self) -> Mapping[int, int]:
        """Return by group the offers of nodes on which its pods may be, as bits."""
        return self.openings.joined

    def common_to(self, groups: Iterable[int]) -> int:
        """Return the offers that a node with pods of these groups, by index, may have: all of them may be there, and at
        least one may open it. Without groups, the offers of nodes without pods."""
        joined, opened, openings = -1, 0, self.openings
        for index in groups:
            joined &= openings.joined[index]
            opened |= openings.opened[index]
        return joined & opened if joined != -1 else openings.of_pool

    def accepting_all(self) -> "PoolVariant":
        """Return the variant for pods that have no other place: they may open nodes of all offers that they accept."""
        accepted = self.openings.accepted
        return replace(self, openings=replace(self.openings, joined=accepted, opened=accepted))

    def may_open(self, groups: Iterable[int], one: NodeOffer) -> bool:
        """Return whether one of these groups, by index, may open a node of the offer."""
        return any(self.openings.opened[index] >> one.index & 1 for index in groups)


Derived = TypeVar("Derived")


class OfferSet:
    """All offers of one pool, with the properties that do not depend on pending pods. Immutable, and shared between
    plans. ``every`` are the offers of nodes that hold their daemons, as bits."""

    __slots__ = ("_derived", "_positions", "every", "launchable")

    def __init__(self, launchable: Iterable[NodeOffer] = ()) -> None:
        self.launchable = tuple(launchable)
        self.every = as_bits([one.index for one in self.launchable if min(one.free, default=0) >= 0])
        self._positions: dict[str, tuple[Mapping[str, int], int]] = {}
        self._derived: dict[object, Any] = {}

    def derived(self, derive: Callable[["OfferSet"], Derived]) -> Derived:
        """Return what ``derive`` makes of this set. It is made once, and kept as long as the set."""
        return self.kept(derive, lambda: derive(self))

    def kept(self, key: object, make: Callable[[], Derived]) -> Derived:
        """Return what was made for this key before, or else what ``make`` makes now."""
        if key not in self._derived:
            self._derived[key] = make()
        found: Derived = self._derived[key]
        return found

    def positions(self, key: str) -> tuple[Mapping[str, int], int]:
        """Return, by value of a label, the offers with that value, as bits; and the offers without the label."""
        if key not in self._positions:
            with_value: dict[str, list[int]] = {}
            without: list[int] = []
            for one in self.launchable:
                value = one.label(key)
                (without if value is None else with_value.setdefault(value, [])).append(one.index)
            self._positions[key] = (
                {value: as_bits(positions) for value, positions in with_value.items()},
                as_bits(without),
            )
        return self._positions[key]


EMPTY_OFFER_SET: Final = OfferSet()

NO_TYPE_AVAILABLE: Final = "no instance type that is available meets the pool's requirements"
"""The reason why a pool without offerings is closed. The explanation distinguishes whether capacity is unavailable."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolOffers:
    """The offers of one pool. ``closed`` is the reason why it has none, or empty. ``fixed`` is the offer of the nodes
    of a static pool. ``exclusions`` say why the class excludes each instance type that the pool allows, if it excludes
    all; ``too_small`` says what the nearest type lacks of the requests of a standalone claim, if all are too small.
    ``waiting`` are the groups, by index, that may need combinations of values of open labels beyond those that the plan
    considers (`considered_values`), each with the offers that accept it then, as bits."""

    pool: NodePool
    node_class: NodeClass | None
    resolved: ResolvedNodeClass | None = None
    _: KW_ONLY
    offer_set: OfferSet = EMPTY_OFFER_SET
    variants: tuple[PoolVariant, ...] = ()
    waiting: Mapping[int, int] = field(default_factory=dict)
    closed: str = ""
    fixed: "PoolOffers | None" = None
    exclusions: Sequence[Exclusion] = ()
    too_small: str = ""

    @property
    def launchable(self) -> tuple[NodeOffer, ...]:
        """Return the offers that can be launched now, without the daemons that only run on nodes of some variants."""
        return self.offer_set.launchable

    @property
    def offer_sets(self) -> Iterable[OfferSet]:
        """Return the offers with the daemons of each variant. Most pools have one such set."""
        return dict.fromkeys(variant.offer_set for variant in self.variants)

    @property
    def podless(self) -> PoolVariant:
        """Return the variant of nodes that are launched without pods."""
        return next((one for one in self.variants if one.openings.of_pool), self.variants[0])

    def domains(self, key: str) -> Mapping[str, int]:
        """Return, by value of a label that offers determine, the offers with that value, as bits."""
        return self.offer_set.positions(key)[0]


@dataclass(frozen=True, slots=True, eq=False)
class OfferChoice:
    """One offer of one pool, with values for the pool's open labels. ``groups`` are the indices of the groups that may
    use it, as bits."""

    pool_offers: PoolOffers
    variant: PoolVariant
    one: NodeOffer
    groups: int

    def label(self, key: str) -> str | None:
        """Return one label of its nodes; this includes the labels that the pool leaves open."""
        return self.variant.labels.get(key) or self.one.label(key)

    @property
    def variants(self) -> tuple[PoolVariant, ...]:
        """The variants of the pool that its nodes may have: all, or the one for pods that have no other place."""
        return self.pool_offers.variants if self.variant in self.pool_offers.variants else (self.variant,)

    def with_offer(self, one: NodeOffer) -> "OfferChoice":
        """Return the choice of another offer of the same pool, for the groups that may use both."""
        groups, left = 0, self.groups
        while left:
            lowest = left & -left
            if self.variant.bits[lowest.bit_length() - 1] >> one.index & 1:
                groups |= lowest
            left ^= lowest
        return OfferChoice(self.pool_offers, self.variant, one, groups)


def meets_min_values(offers: Iterable[NodeOffer], minimums: Mapping[str, int]) -> bool:
    """Return whether these offers have as many values of each label as minValues requires."""
    seen: dict[str, set[str]] = {key: set() for key in minimums}
    for one in offers:
        for key, values in seen.items():
            value = one.label(key)
            if value is not None:
                values.add(value)
        if all(len(values) >= minimums[key] for key, values in seen.items()):
            return True
    return not minimums
