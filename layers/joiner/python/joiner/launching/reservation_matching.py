"""Read the capacity reservations that EC2 reports for a class: which of them can take nodes now.

Left out are reservations that have ended or are about to end, those of other platforms than Linux, those of dedicated
hardware, and those of another placement group than the one of the class: a launch into them would be refused, or its
node would be drained at once. Source: EC2 user guide, "Use Capacity Reservations with placement groups".
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.capacity_reservations import CAPACITY_BLOCK, DEFAULT, CapacityReservation
from joiner.pools.resolved_node_class import PlacementGroup
from joiner.pools.timestamps import parse_timestamp

LINUX: Final = frozenset({"Linux/UNIX"})
BLOCK_END: Final = timedelta(minutes=40)
"""Nodes of a capacity block are drained from 40 minutes before its end on; EC2 terminates them ten minutes later."""


def read_reservations(
    described: Iterable[Mapping[str, Any]], asked_at: str, group: PlacementGroup | None = None
) -> tuple[CapacityReservation, ...]:
    """Return the usable reservations of DescribeCapacityReservations, sorted by id, each once.

    ``group`` is the placement group of the class.
    """
    now = parse_timestamp(asked_at) if asked_at else None
    usable = (one for one in described if _is_usable(one, now) and _is_of_group(one, group))
    found = {one["CapacityReservationId"]: _read(one) for one in usable}
    return tuple(found[identifier] for identifier in sorted(found))


def _is_of_group(described: Mapping[str, Any], group: PlacementGroup | None) -> bool:
    """Return whether the reservation was created in the placement group; without a group, whether it is in none."""
    name = str(described.get("PlacementGroupArn") or "").rpartition("placement-group/")[2]
    return name == (group.name if group else "")


def _is_usable(described: Mapping[str, Any], now: datetime | None) -> bool:
    ends = _end(described)
    margin = BLOCK_END if described.get("ReservationType") == CAPACITY_BLOCK else timedelta()
    return (
        described.get("State", "active") == "active"
        and described.get("InstancePlatform", "Linux/UNIX") in LINUX
        and described.get("Tenancy", "default") == "default"
        and (ends is None or now is None or now < ends - margin)
    )


def _end(described: Mapping[str, Any]) -> datetime | None:
    end = described.get("EndDate")
    return end if isinstance(end, datetime) or end is None else parse_timestamp(str(end))


def _read(described: Mapping[str, Any]) -> CapacityReservation:
    end = _end(described)
    return CapacityReservation(
        id=described["CapacityReservationId"],
        instance_type=described["InstanceType"],
        zone=described["AvailabilityZone"],
        available=int(described.get("AvailableInstanceCount") or 0),
        owner=str(described.get("OwnerId") or ""),
        match=described.get("InstanceMatchCriteria") or "open",
        kind=described.get("ReservationType") or DEFAULT,
        interruptible=bool(described.get("Interruptible")),
        ends_at=f"{end:%Y-%m-%dT%H:%M:%SZ}" if end else "",
    )


def find_reservation_problems(node_class: NodeClass, found: Iterable[CapacityReservation]) -> list[NodeClassProblem]:
    """Return a warning if the class selects reservations and none is usable; its nodes use other capacity."""
    if not node_class.capacity_reservation_terms or list(found):
        return []
    message = (
        "spec.capacityReservationSelectorTerms: no active reservation for Linux matches: nodes are launched as "
        "on-demand or spot. Check the terms, that the reservation belongs to or is shared with this account, and that "
        "it was created in the placement group of the class, if the class has one"
    )
    return [NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotFound", message, severity="warning")]
