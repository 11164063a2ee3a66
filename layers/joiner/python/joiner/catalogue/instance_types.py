"""Instance types and their offerings: labels, capacity and prices of a node of a type.

An *offering* is an instance type in a zone with a capacity type and a price. Capacity and overhead of a type are those
of a node with the defaults of AL2023. ``joiner.catalogue.allocatable`` computes them for a node class.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final

from joiner import names
from joiner.catalogue.commitments import Commitment
from joiner.catalogue.instance_features import InstanceFeatures
from joiner.cluster import Resources
from joiner.cluster.resources import MEMORY

COMMITMENTS: Final = "commitments"
LEAST_SHARE_OF_MEMORY: Final = 0.5
"""The share of its estimated memory that a node has at least: a kubelet may write any number into its own Node, and a
wrong one must not keep all pods from a type."""

INSTANCE_MEMORY: Final = "karpenter.k8s.aws/instance-memory"


@dataclass(frozen=True, slots=True, order=True)
class Offering:
    """One way to get an instance type, with its price in $/h. It is not ``available`` if it has a known shortage.

    ``reservation`` is the id of the capacity reservation of a reserved offering. ``count`` is the number of free
    instances in it (None if unknown: no limit). ``overlaid`` is whether a NodeOverlay changed the price.

    Offerings with a ``commitment``, the id of one that covers the instance, exist in plans only: ``committed`` is the
    part of the price that it pays for ($/h), ``count`` is its amount, and ``units`` is what one instance uses of it.
    The ``tenancy`` of the offerings of a catalogue is ``default``; plans add those on dedicated hardware.
    """

    zone: str
    capacity_type: str
    price_per_hour: float
    _: KW_ONLY
    available: bool = True
    reservation: str = ""
    count: int | None = None
    overlaid: bool = False
    commitment: str = ""
    committed: float = 0.0
    units: int = 1
    interruptions: float = 0.0
    """What the interruptions of a spot instance cost in $/h, beside its price; plans add it."""
    tenancy: str = names.DEFAULT_TENANCY

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Offering":
        """Read the JSON form of the value, as `to_json` returns it."""
        count = raw.get("count")
        return cls(
            zone=raw["zone"],
            capacity_type=raw["capacityType"],
            price_per_hour=float(raw["pricePerHour"]),
            available=bool(raw.get("available", True)),
            reservation=raw.get("reservation") or "",
            count=None if count is None else int(count),
            interruptions=float(raw.get("interruptionsPerHour", 0.0)),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        shown: dict[str, Any] = {
            "zone": self.zone,
            "capacityType": self.capacity_type,
            "pricePerHour": self.price_per_hour,
        }
        optional = {
            "reservation": self.reservation or None,
            "count": self.count,
            "available": None if self.available else False,
            "interruptionsPerHour": self.interruptions or None,
        }
        return {**shown, **{name: value for name, value in optional.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Interfaces:
    """The network interfaces of the default network card of a type. They limit the number of pods with an address."""

    count: int
    addresses_each: int

    def pods(self, reserved: int = 0) -> int:
        """Return the number of pods that can run.

        Each interface needs one of its addresses for itself. Two pods use the address of the host.

        >>> Interfaces(3, 10).pods()
        29
        """
        usable = max(self.count - reserved, 0)
        return usable * (self.addresses_each - 1) + 2 if usable else 0

    def less(self, pods: int, without_addresses: int) -> int:
        """Return the number of pods if so many more of the interfaces have no addresses.

        >>> Interfaces(3, 10).less(29, 1), Interfaces(3, 10).less(11, 1)
        (20, 0)
        """
        left = pods - without_addresses * (self.addresses_each - 1)
        return left if left > 2 else 0


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One instance type. ``labels`` are the labels of its nodes that come from the type; an unknown fact has no label.

    ``interfaces`` is None if they are unknown. Then only maxPods of a class changes the number of pods.
    ``observed_memory`` is the memory in bytes that nodes of the type reported, by the id of their image.
    ``dedicated_surcharge`` is what an instance on dedicated hardware costs more in $/h; None if its price is unknown.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = field(default_factory=Resources)
    allocatable: Resources = field(default_factory=Resources)
    offerings: tuple[Offering, ...] = ()
    interfaces: Interfaces | None = None
    features: InstanceFeatures = field(default_factory=InstanceFeatures)
    observed_memory: Mapping[str, int] = field(default_factory=dict)
    dedicated_surcharge: float | None = None

    @property
    def arch(self) -> str:
        """Return the architecture, as in the label `kubernetes.io/arch`."""
        return self.labels.get(names.ARCH, "")

    @property
    def vcpus(self) -> int:
        """Return the number of whole vCPUs."""
        return self.capacity.get("cpu", 0) // 1000

    def with_offerings(self, offerings: Iterable[Offering]) -> "InstanceType":
        """Return the type with these offerings instead of its own."""
        return replace(self, offerings=_sorted(offerings))

    def with_memory(self, size: int | None) -> "InstanceType":
        """Return the type with this memory in bytes, which nodes of it reported; itself for None.

        A size above the whole memory that EC2 describes, or below half of the estimate, does not count.
        """
        estimate = self.capacity.get(MEMORY, 0)
        if size is None or size == estimate:
            return self
        if size > self._described_memory() or size < estimate * LEAST_SHARE_OF_MEMORY:
            return self
        left = max(self.allocatable.get(MEMORY, 0) + size - estimate, 0)
        return replace(
            self,
            capacity=Resources({**self.capacity, MEMORY: size}),
            allocatable=Resources({**self.allocatable, MEMORY: left}),
        )

    def _described_memory(self) -> float:
        """Return the memory in bytes that EC2 describes, as the label of nodes has it; infinite if it is unknown."""
        mebibytes = self.labels.get(INSTANCE_MEMORY, "")
        return int(mebibytes) * 2**20 if mebibytes.isdecimal() else math.inf

    def price(self, zone: str, capacity_type: str) -> float | None:
        """Return the price of one offering in $/h, available or not; None if the offering does not exist."""
        found = self.offering(zone, capacity_type)
        return found.price_per_hour if found else None

    def offering(self, zone: str, capacity_type: str) -> Offering | None:
        """Return one offering, available or not; None if it does not exist."""
        found = (one for one in self.offerings if (one.zone, one.capacity_type) == (zone, capacity_type))
        return next(found, None)

    @classmethod
    def from_json(cls, name: str, raw: Mapping[str, Any]) -> "InstanceType":
        """Read the JSON form of the value, as `to_json` returns it."""
        network = raw.get("network")
        return cls(
            name=name,
            labels=dict(raw.get("labels") or {}),
            capacity=Resources.from_kube(raw.get("capacity")),
            allocatable=Resources.from_kube(raw.get("allocatable")),
            offerings=_sorted(Offering.from_json(one) for one in raw.get("offerings") or ()),
            interfaces=Interfaces(network["interfaces"], network["addressesEach"]) if network else None,
            features=InstanceFeatures.from_json(raw.get("features") or {}),
            observed_memory=dict(raw.get("observedMemory") or {}),
            dedicated_surcharge=None if (more := raw.get("dedicatedSurchargePerHour")) is None else float(more),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        shown: dict[str, Any] = {
            "labels": dict(sorted(self.labels.items())),
            "capacity": self.capacity.to_kube(),
            "allocatable": self.allocatable.to_kube(),
            "offerings": [one.to_json() for one in self.offerings],
        }
        if self.interfaces:
            shown["network"] = {"interfaces": self.interfaces.count, "addressesEach": self.interfaces.addresses_each}
        if features := self.features.to_json():
            shown["features"] = features
        if self.observed_memory:
            shown["observedMemory"] = dict(sorted(self.observed_memory.items()))
        if self.dedicated_surcharge is not None:
            shown["dedicatedSurchargePerHour"] = self.dedicated_surcharge
        return shown


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All instance types by name, and the commitments of the account, in the order in which AWS applies them."""

    types: Mapping[str, InstanceType] = field(default_factory=dict)
    commitments: tuple[Commitment, ...] = ()

    @classmethod
    def of(cls, types: Iterable[InstanceType], commitments: Iterable[Commitment] = ()) -> "Catalogue":
        """Return the catalogue of these types, by name."""
        return cls({one.name: one for one in sorted(types, key=lambda one: one.name)}, tuple(commitments))

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Catalogue":
        """Read the result of ``to_json``: ``{"m5.large": {"labels", "capacity", "allocatable", "offerings"}}``, with
        the list of commitments under ``commitments`` if there are any."""
        return cls.of(
            (InstanceType.from_json(name, one) for name, one in raw.items() if name != COMMITMENTS),
            map(Commitment.from_json, raw.get(COMMITMENTS) or ()),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        types = {name: one.to_json() for name, one in self.types.items()}
        committed = {COMMITMENTS: [one.to_json() for one in self.commitments]} if self.commitments else {}
        return {**types, **committed}

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return the price of one offering in $/h; None if it is not known."""
        known = self.types.get(instance_type)
        return known.price(zone, capacity_type) if known else None

    def offering(self, instance_type: str, zone: str, capacity_type: str) -> Offering | None:
        """Return one offering; None if it is not known."""
        known = self.types.get(instance_type)
        return known.offering(zone, capacity_type) if known else None


def _sorted(offerings: Iterable[Offering]) -> tuple[Offering, ...]:
    return tuple(
        sorted(
            offerings, key=lambda one: (one.zone, one.capacity_type, one.price_per_hour, one.available, one.reservation)
        )
    )
