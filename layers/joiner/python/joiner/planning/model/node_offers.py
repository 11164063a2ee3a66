"""What can be launched, as values: offers, what one pool has of them (``stocking`` makes that), and the choice of one.

Against each offer stands the set of groups whose node rules it meets, as bits, so that the placer never looks at a
label again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joiner import names
from joiner.catalogue import InstanceType, Offering
from joiner.cluster import Resources
from joiner.planning.plan import Offer
from joiner.pools import NodeClass, NodePool

Unavailable = frozenset[tuple[str, str, str]]
"""Capacity type, instance type and zone of offerings that are short now; ``*`` for type or zone means all of them."""

NEW_HOST: Final = "\0new"
"""Stands for the name of a node that has none yet: it equals no name that anybody asks for."""

INSTANCE_LABELS: Final = re.compile(
    r"(kubernetes\.io/(arch|os|hostname)|node\.kubernetes\.io/.*|topology\..*|karpenter\.(sh|k8s\.aws)/.*)"
)
"""Labels that the instance or Joiner decides; whatever else a pool's requirements name is the pool's to choose."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolInstanceType:
    """What one pool makes of one instance type, whichever zone and capacity type it is had in.

    ``room`` is what its pods can request before daemons, in the order of the plan's resources. ``labels`` lack those of
    the place.
    """

    name: str
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    room: tuple[int, ...]


class NodeOffer:
    """One offer of one pool: ``room`` is what its pods can request (daemons taken off), in the order of the plan's
    resources.

    ``daemons`` are positions among the plan's, ``overhead`` is what they request. There are thousands of offers and a
    plan looks closely at few: labels are made when somebody asks.
    """

    __slots__ = ("_labels", "_offer", "daemons", "index", "model", "offering", "overhead", "place", "room")

    def __init__(
        self,
        index: int,
        model: PoolInstanceType,
        offering: Offering,
        *,
        room: tuple[int, ...],
        daemons: tuple[int, ...],
        overhead: Resources,
        place: Mapping[str, str],
    ) -> None:
        self.index = index
        self.model = model
        self.offering = offering
        self.room = room
        self.daemons = daemons
        self.overhead = overhead
        self.place = place
        self._offer: Offer | None = None
        self._labels: dict[str, str] | None = None

    @property
    def offer(self) -> Offer:
        if self._offer is None:
            said = self.offering
            self._offer = Offer(said.price_per_hour, self.model.name, said.zone, said.capacity_type)
        return self._offer

    @property
    def capacity(self) -> Resources:
        return self.model.capacity

    @property
    def allocatable(self) -> Resources:
        return self.model.allocatable

    @property
    def labels(self) -> Mapping[str, str]:
        """Of its nodes, but for those that the pool leaves open."""
        if self._labels is None:
            self._labels = {**self.model.labels, **self.place}
        return self._labels

    @property
    def supply(self) -> int | None:
        """How many such nodes can be had at all (what is left of a reservation); None = as many as one likes."""
        return self.offering.count

    @property
    def supply_key(self) -> tuple[str, ...]:
        """The same for offers that draw on one supply, in whichever pool they are."""
        said = self.offering
        return (
            ("reservation", said.reservation) if said.reservation else (self.model.name, said.zone, said.capacity_type)
        )

    def label(self, key: str) -> str | None:
        """One label, without making the others."""
        found = self.place.get(key)
        return self.model.labels.get(key) if found is None else found


@dataclass(frozen=True, slots=True, eq=False)
class PoolVariant:
    """A pool with the labels that it leaves open decided (``labels``). ``bits`` of a group are the offers that it may
    use.
    """

    pool: NodePool
    labels: Mapping[str, str]
    bits: Mapping[int, int] = field(default_factory=dict)


class OfferSet:
    """All offers of one pool, and what can be said of them whoever is planned for. Never changed, and shared between
    plans.
    """

    __slots__ = ("__weakref__", "_positions", "launchable")

    def __init__(self, launchable: Iterable[NodeOffer] = ()) -> None:
        self.launchable = tuple(launchable)
        self._positions: dict[str, tuple[Mapping[str, int], int]] = {}

    def positions(self, key: str) -> tuple[Mapping[str, int], int]:
        """Value of a label -> the offers that carry it, as bits; and the offers that carry none."""
        if key not in self._positions:
            carried: dict[str, list[int]] = {}
            lacking: list[int] = []
            for one in self.launchable:
                value = one.label(key)
                (lacking if value is None else carried.setdefault(value, [])).append(one.index)
            self._positions[key] = (
                {value: _as_bits(positions) for value, positions in carried.items()},
                _as_bits(lacking),
            )
        return self._positions[key]


EMPTY_OFFER_SET: Final = OfferSet()

NO_TYPE_AVAILABLE: Final = "no instance type that is available meets the pool's requirements"
"""Why a market without a single offering is closed; the explanation can tell whether that is for want of capacity."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolOffers:
    """What one pool offers. ``closed`` says why it offers nothing, or is empty; ``fixed`` is what a static pool makes
    its nodes from.
    """

    pool: NodePool
    node_class: NodeClass | None
    stock: OfferSet = EMPTY_OFFER_SET
    variants: tuple[PoolVariant, ...] = ()
    closed: str = ""
    fixed: "PoolOffers | None" = None

    @property
    def launchable(self) -> tuple[NodeOffer, ...]:
        return self.stock.launchable

    def domains(self, key: str) -> Mapping[str, int]:
        """Value of a label that offers decide -> the offers that carry it, as bits."""
        return self.stock.positions(key)[0]


@dataclass(frozen=True, slots=True, eq=False)
class OfferChoice:
    """One offer of one pool, with the pool's open labels decided. ``groups`` are the indices of those that may use it,
    as bits.
    """

    market: PoolOffers
    variant: PoolVariant
    one: NodeOffer
    groups: int

    def label(self, key: str) -> str | None:
        """One label of its nodes, those included that the pool leaves open."""
        return self.variant.labels.get(key) or self.one.label(key)


def pool_labels(pool: NodePool) -> dict[str, str]:
    """The labels that every node of the pool carries, whatever its type."""
    own = {**pool.labels, names.NODEPOOL: pool.name}
    if pool.legacy:
        own[names.PROVISIONER] = pool.name
    if pool.class_ref.kind == "EC2NodeClass":
        own[names.NODECLASS] = pool.class_ref.name
    return own


def node_labels(pool: NodePool, instance_type: InstanceType, zone: str, capacity_type: str) -> dict[str, str]:
    """The labels that a node of this type will have there, but for those that the pool leaves open."""
    return {**type_labels(instance_type, pool_labels(pool)), **place_labels(zone, capacity_type)}


def type_labels(instance_type: InstanceType, of_pool: Mapping[str, str]) -> dict[str, str]:
    return {f"{names.INSTANCE_PREFIX}tenancy": "default", **instance_type.labels, **of_pool}


def place_labels(zone: str, capacity_type: str, *, zone_id: str = "", reservation: str = "") -> dict[str, str]:
    """Labels that depend on where and how a node is had, and those of any node that is new."""
    region = names.region_of(zone)
    return {
        **({names.ZONE_ID: zone_id} if zone_id else {}),
        **({names.RESERVATION: reservation} if reservation else {}),
        names.ZONE: zone,
        names.CAPACITY_TYPE: capacity_type,
        names.HOSTNAME: NEW_HOST,
        names.REGISTERED: "true",
        names.INITIALIZED: "true",
        **({names.REGION: region} if region else {}),
    }


def meets_min_values(offers: Iterable[NodeOffer], minimums: Mapping[str, int]) -> bool:
    """Whether these offers show as many values of each label as minValues asks for."""
    seen: dict[str, set[str]] = {key: set() for key in minimums}
    for one in offers:
        for key, values in seen.items():
            value = one.label(key)
            if value is not None:
                values.add(value)
        if all(len(values) >= minimums[key] for key, values in seen.items()):
            return True
    return not minimums


def _as_bits(positions: Sequence[int]) -> int:
    if not positions:
        return 0
    marks = bytearray(positions[-1] // 8 + 1)
    for position in positions:
        marks[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(marks, "little")


def bit_positions(bits: int) -> list[int]:
    """The positions of the bits that are set, ascending.

    >>> bit_positions(0b10110)
    [1, 2, 4]
    """
    text = bin(bits)[:1:-1]
    found, start = [], text.find("1")
    while start >= 0:
        found.append(start)
        start = text.find("1", start + 1)
    return found


def bit_positions_descending(bits: int) -> Iterator[int]:
    """The positions of the bits that are set, the last first: offers come by name, and sizes are spread all over, so it
    is as good as any.

    >>> list(bit_positions_descending(0b10110))
    [4, 2, 1]
    """
    while bits:
        position = bits.bit_length() - 1
        yield position
        bits ^= 1 << position
