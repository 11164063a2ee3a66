"""Instance types and their offerings, as values: what a node of a type carries, holds and costs.

An *offering* is a type in a zone under a capacity type, at a price. Sizes and overhead of a type are those of a node
with the defaults of AL2023; ``joiner.catalogue.allocatable`` says what a node class makes of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner import names
from joiner.cluster import Resources


@dataclass(frozen=True, slots=True, order=True)
class Offering:
    """One way to get an instance type, in $/h; not ``available`` where it is known to be short.

    ``reservation`` is the id of the capacity reservation that a reserved offering is had from, and ``count`` how many
    instances are left in it (None where nobody has said: as many as one likes).
    """

    zone: str
    capacity_type: str
    price_per_hour: float
    available: bool = True
    reservation: str = ""
    count: int | None = None

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Offering":
        count = said.get("count")
        return cls(
            zone=said["zone"],
            capacity_type=said["capacityType"],
            price_per_hour=float(said["pricePerHour"]),
            available=bool(said.get("available", True)),
            reservation=said.get("reservation") or "",
            count=None if count is None else int(count),
        )

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "zone": self.zone,
            "capacityType": self.capacity_type,
            "pricePerHour": self.price_per_hour,
        }
        told = {
            "reservation": self.reservation or None,
            "count": self.count,
            "available": None if self.available else False,
        }
        return {**shown, **{name: value for name, value in told.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Interfaces:
    """The network interfaces of a type's default network card: how many pods can have an address."""

    count: int
    addresses_each: int

    def pods(self, reserved: int = 0) -> int:
        """Pods with addresses of their own; one address an interface is its own, and two pods use the host's.

        >>> Interfaces(3, 10).pods()
        29
        """
        usable = max(self.count - reserved, 0)
        return usable * (self.addresses_each - 1) + 2 if usable else 0


NOT_MADE: Final[Mapping[str, str]] = {
    "vpc.amazonaws.com/efa": (
        "Joiner's launch templates make no EFA interfaces yet: run such pods on a node group that has them"
    ),
}
"""Devices that instance types have and that nodes of Joiner lack, and what to do instead. They are not offered."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One instance type. ``labels`` are what its nodes carry of it (a fact that it lacks is a label that is missing).

    ``interfaces`` is None where nothing is known of them; then maxPods of a class is all that can change its pods.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = field(default_factory=Resources)
    allocatable: Resources = field(default_factory=Resources)
    offerings: tuple[Offering, ...] = ()
    interfaces: Interfaces | None = None

    @property
    def arch(self) -> str:
        return self.labels.get(names.ARCH, "")

    @property
    def vcpus(self) -> int:
        return self.capacity.get("cpu", 0) // 1000

    def with_offerings(self, offerings: Iterable[Offering]) -> "InstanceType":
        return replace(self, offerings=_sorted(offerings))

    def price(self, zone: str, capacity_type: str) -> float | None:
        """$/h of one offering, available or not; None if there is no such offering."""
        return next(
            (one.price_per_hour for one in self.offerings if (one.zone, one.capacity_type) == (zone, capacity_type)),
            None,
        )

    @classmethod
    def from_json(cls, name: str, said: Mapping[str, Any]) -> "InstanceType":
        network = said.get("network")
        return cls(
            name=name,
            labels=dict(said.get("labels") or {}),
            capacity=Resources.from_kube(said.get("capacity")),
            allocatable=Resources.from_kube(said.get("allocatable")),
            offerings=_sorted(Offering.from_json(one) for one in said.get("offerings") or ()),
            interfaces=Interfaces(network["interfaces"], network["addressesEach"]) if network else None,
        )

    def to_json(self) -> dict[str, Any]:
        shown = {
            "labels": dict(sorted(self.labels.items())),
            "capacity": self.capacity.to_kube(),
            "allocatable": self.allocatable.to_kube(),
            "offerings": [one.to_json() for one in self.offerings],
        }
        if self.interfaces:
            shown["network"] = {"interfaces": self.interfaces.count, "addressesEach": self.interfaces.addresses_each}
        return shown


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every instance type that there is, by name."""

    types: Mapping[str, InstanceType] = field(default_factory=dict)

    @classmethod
    def of(cls, types: Iterable[InstanceType]) -> "Catalogue":
        return cls({one.name: one for one in sorted(types, key=lambda one: one.name)})

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Catalogue":
        """From what ``to_json`` gives: ``{"m5.large": {"labels", "capacity", "allocatable", "offerings"}}``."""
        return cls.of(InstanceType.from_json(name, one) for name, one in said.items())

    def to_json(self) -> dict[str, Any]:
        return {name: one.to_json() for name, one in self.types.items()}

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """$/h of one offering; None if it is not known."""
        known = self.types.get(instance_type)
        return known.price(zone, capacity_type) if known else None


def _sorted(offerings: Iterable[Offering]) -> tuple[Offering, ...]:
    return tuple(
        sorted(
            offerings, key=lambda one: (one.zone, one.capacity_type, one.price_per_hour, one.available, one.reservation)
        )
    )
