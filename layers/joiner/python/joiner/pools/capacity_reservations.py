"""Capacity reservations: instances of one type and zone that the account pays for whether they run or not.

A class selects them with `capacityReservationSelectorTerms`. A node in a reservation has the capacity type `reserved`.
Source: EC2 API reference, CapacityReservation; Karpenter, "NodeClasses" (spec.capacityReservationSelectorTerms).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner import names

RESERVATION_LABELS: Final = (names.RESERVATION, names.RESERVATION_TYPE, names.RESERVATION_INTERRUPTIBLE)
"""The labels of a node that its reservation decides."""

DEFAULT: Final = "default"
CAPACITY_BLOCK: Final = "capacity-block"
PRICE_SHARE: Final = 1e-7
"""The share of the on-demand price that a node costs for which a reservation or a commitment pays. It is paid for
anyway, so it is used before every other offering; of several types, the one with the lowest on-demand price is
preferred.
"""


@dataclass(frozen=True, slots=True, order=True)
class CapacityReservation:
    """One active reservation. ``available`` is the number of its free instances, ``match`` is open or targeted,
    ``kind`` is default or capacity-block. ``ends_at`` is EC2's text (RFC 3339), empty without an end.
    """

    id: str
    instance_type: str
    zone: str
    available: int = 0
    owner: str = ""
    match: str = "open"
    kind: str = DEFAULT
    interruptible: bool = False
    ends_at: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of nodes in this reservation."""
        values = (self.id, self.kind, "true" if self.interruptible else "false")
        return dict(zip(RESERVATION_LABELS, values, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "id": self.id,
            "instanceType": self.instance_type,
            "zone": self.zone,
            "available": self.available,
            "owner": self.owner,
            "match": self.match,
            "kind": self.kind,
            "interruptible": self.interruptible,
            "endsAt": self.ends_at,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "CapacityReservation":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            raw["id"],
            raw["instanceType"],
            raw["zone"],
            raw["available"],
            raw["owner"],
            raw["match"],
            raw["kind"],
            raw["interruptible"],
            raw["endsAt"],
        )

    @classmethod
    def from_status(cls, raw: Mapping[str, Any]) -> "CapacityReservation":
        """Read an item of the status of a class, of Joiner or Karpenter. It does not tell how many instances are free:
        none is ``available``.
        """
        return cls(
            id=str(raw.get("id", "")),
            instance_type=str(raw.get("instanceType", "")),
            zone=str(raw.get("availabilityZone", "")),
            owner=str(raw.get("ownerID", "")),
            match=str(raw.get("instanceMatchCriteria", "open")),
            kind=str(raw.get("reservationType", DEFAULT)),
            interruptible=raw.get("interruptible") is True,
            ends_at=str(raw.get("endTime", "")),
        )

    def to_status(self) -> dict[str, Any]:
        """Return the item of the class's status."""
        shown: dict[str, Any] = {
            "id": self.id,
            "instanceType": self.instance_type,
            "availabilityZone": self.zone,
            "ownerID": self.owner,
            "instanceMatchCriteria": self.match,
            "reservationType": self.kind,
            "interruptible": self.interruptible,
            "state": "active",
        }
        return {name: value for name, value in (shown | {"endTime": self.ends_at}).items() if value != ""}
