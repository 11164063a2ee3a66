"""Capacity reservations: instances of one type and zone that only launches into the reservation can use.

Knob: `POST /_local/reservations {"instanceType": "m5.large", "zone": "us-east-1a", "count": 2}` makes one and returns
its id. Optional fields are `match` (open or targeted), `type` (default or capacity-block), `interruptible`, `tags` and
`endsInSeconds`. `{"cancel": "cr-..."}` ends one: its instances run on outside of it. `{"clear": true}` removes all.
`{"expire": "cr-...", "grace": 600}` is the end of a capacity block, as EC2 makes it: the event of 40 minutes before the
end is sent now, and the instances are terminated `grace` seconds later (ten minutes on EC2).

A launch with the preference `none` uses no reservation. Without a preference, an on-demand launch uses an open one that
matches, as on EC2. Source: EC2 user guide, "On-Demand Capacity Reservations" and "Capacity Blocks for ML"; EC2 API
reference, CapacityReservationSpecification.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import add_items, replace_attribute, wrap_attribute
from joiner_local.aws.ec2.capacity_pools import ON_DEMAND, CapacityPool
from joiner_local.aws.ec2.instance_lifecycle import AGENDA, EndReason, terminate
from joiner_local.aws.ec2.shared_resources import owner_of
from joiner_local.aws.eventbridge.event_rules import publish
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import check_fields, read_flag, read_number, read_object, read_text, read_whole

FIELDS: Final = {"instanceType", "zone", "count", "match", "type", "interruptible", "tags", "endsInSeconds"}
BLOCK: Final = "capacity-block"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
LIVING: Final = ("pending", "running", "stopping", "stopped")

BLOCK_WARNING: Final = timedelta(minutes=40)
BLOCK_GRACE: Final = 600.0
BLOCK_ENDED: Final = EndReason("Server.ScheduledStop", "Server.ScheduledStop: Stopped due to a scheduled retirement")
"""The reason is not published; this is that of other ends which EC2 schedules."""

Problem = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation; it is cancelled, or ends by itself at `ends_at`."""

    id: str
    instance_type: str
    zone: str
    count: int
    match: str = "open"
    kind: str = "default"
    interruptible: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    ends_at: datetime | None = None

    @property
    def market(self) -> str:
        """Return the market type that launches into it must have; empty for an ordinary one."""
        return BLOCK if self.kind == BLOCK else INTERRUPTIBLE if self.interruptible else ""

    def fits(self, pool: CapacityPool) -> bool:
        """Return whether instances of the pool may use the reservation."""
        return (self.instance_type, self.zone, ON_DEMAND) == (pool.instance_type, pool.zone, pool.lifecycle)


@dataclass(slots=True)
class Reservations:
    """All reservations by id, and the ids of cancelled ones."""

    known: dict[str, Reservation] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    used: bool = False
    """Whether a launch has ever used a reservation."""

    def active(self, identifier: str) -> bool:
        """Return whether the reservation exists, and is neither cancelled nor over."""
        found = self.known.get(identifier)
        ended = found is not None and found.ends_at is not None and found.ends_at <= utcnow()
        return found is not None and identifier not in self.cancelled and not ended

    def release_ended(self, backend: Any) -> None:
        """Take instances out of reservations that have ended; EC2 keeps them running."""
        for instance in _instances(backend) if self.used else ():
            held = getattr(instance, "capacity_reservation_id", None)
            if held and not self.active(held):
                instance.capacity_reservation_id = None

    def free(self, reservation: Reservation, backend: Any) -> int:
        """Return how many of its instances are free."""
        held = [getattr(instance, "capacity_reservation_id", None) for instance in _instances(backend)]
        return reservation.count - held.count(reservation.id) if self.active(reservation.id) else 0

    def use(self, data: Mapping[str, Any], pool: CapacityPool, backend: Any) -> Reservation | None:
        """Return the reservation that a launch in this pool uses; None if it uses none."""
        found = self.wanted(data, pool, backend)
        self.used = self.used or found is not None
        return found

    def wanted(self, data: Mapping[str, Any], pool: CapacityPool, backend: Any) -> Reservation | None:
        """Return the reservation that a launch in this pool would use; None if it uses none."""
        specification = data.get("CapacityReservationSpecification") or {}
        target = (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
        if target:
            return self.known.get(target)
        if specification.get("CapacityReservationPreference") == "none":
            return None
        open_ones = (
            one for one in list(self.known.values()) if one.match == "open" and not one.market and one.fits(pool)
        )
        return next((one for one in open_ones if self.free(one, backend) > 0), None)

    def problem(self, data: Mapping[str, Any], pool: CapacityPool) -> Problem | None:
        """Return the error that RunInstances finds in the reservation that a launch names."""
        specification = data.get("CapacityReservationSpecification") or {}
        target = (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
        market = (data.get("InstanceMarketOptions") or {}).get("MarketType", "")
        if not target:
            return None
        found = self.known.get(target)
        if found is None:
            return "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{target}' does not exist"
        if not self.active(target):
            return "InvalidCapacityReservationState", f"The capacity reservation {target} is not active."
        if not found.fits(pool):
            return (
                "InvalidParameterValue",
                f"The requested configuration does not match the capacity reservation {target}.",
            )
        if market != found.market:
            wanted = found.market or "on-demand"
            message = f"The capacity reservation {target} needs the market type {wanted}, and the request has another."
            return "InvalidParameterCombination", message
        return None


RESERVATIONS: Final = Reservations()


def is_targeted(data: Mapping[str, Any]) -> bool:
    """Return whether a launch names a reservation."""
    specification = data.get("CapacityReservationSpecification") or {}
    return bool(specification.get("CapacityReservationTarget"))


def _instances(backend: Any) -> Iterator[Any]:
    groups = list(backend.reservations.values())  # launches add some meanwhile
    return (instance for group in groups for instance in group.instances if instance.state in LIVING)


def set_reservations(asked: dict[str, Any]) -> dict[str, Any]:
    """Add, cancel or remove reservations."""
    if asked.get("clear"):
        RESERVATIONS.known.clear()
        RESERVATIONS.cancelled.clear()
        return {}
    if identifier := read_text(asked, "cancel", ""):
        if identifier not in RESERVATIONS.known:
            raise ValueError(f"reservations: there is no {identifier}")
        RESERVATIONS.cancelled.add(identifier)
        return {}
    if identifier := read_text(asked, "expire", ""):
        return _expire(identifier, read_number(asked, "grace", BLOCK_GRACE))
    check_fields(asked, FIELDS, "reservations")
    if (instance_type := read_text(asked, "instanceType")) not in INSTANCE_TYPES:
        raise ValueError(f"reservations: instanceType is {instance_type!r}: there is none called so")
    seconds = None if asked.get("endsInSeconds") is None else read_number(asked, "endsInSeconds")
    made = Reservation(
        id=f"cr-{uuid.uuid4().hex[:17]}",
        instance_type=instance_type,
        zone=read_text(asked, "zone"),
        count=read_whole(asked, "count", 1),
        match=asked.get("match", "open"),
        kind=asked.get("type", "default"),
        interruptible=read_flag(asked, "interruptible", default=False),
        tags=read_object(asked, "tags") if asked.get("tags") else {},
        ends_at=None if seconds is None else utcnow() + timedelta(seconds=seconds),
    )
    RESERVATIONS.known[made.id] = made
    return {"id": made.id}


def _expire(identifier: str, grace: float) -> dict[str, Any]:
    """Let a capacity block come to its end: announce it now, and terminate its instances ``grace`` seconds later."""
    block = RESERVATIONS.known.get(identifier)
    if block is None or block.kind != BLOCK:
        raise ValueError(f"reservations: {identifier} is no capacity block")
    ends_at = utcnow() + BLOCK_WARNING
    RESERVATIONS.known[identifier] = replace(block, ends_at=ends_at)
    detail = {"capacity-reservation-id": identifier, "end-date": f"{ends_at:%Y-%m-%dT%H:%M:%SZ}"}
    AGENDA.after(0, lambda: publish("aws.ec2", "Capacity Block Reservation Expiration Warning", detail))
    AGENDA.after(grace, lambda: _terminate_all(identifier))
    return {}


def _terminate_all(identifier: str) -> None:
    for instance in list(_instances(ec2_backends[ACCOUNT][REGION])):
        if getattr(instance, "capacity_reservation_id", None) == identifier:
            terminate(instance, BLOCK_ENDED)


def describe_capacity_reservations(response: Any) -> ActionResult:
    """Return reservations. EC2 refuses unknown ids."""
    ids = response._get_param("CapacityReservationIds", [])
    if missing := [each for each in ids if each not in RESERVATIONS.known]:
        raise EC2ClientError(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{missing[0]}' does not exist"
        )
    shown = [_shown(one, response.ec2_backend) for one in list(RESERVATIONS.known.values()) if not ids or one.id in ids]
    filters = response._get_param("Filters", [])
    for each in filters:
        _meets({}, each)  # refuses a filter that does not exist, whatever there is
    return ActionResult({"CapacityReservations": [one for one in shown if all(_meets(one, each) for each in filters)]})


def _meets(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """
    >>> _meets({"State": "active", "Tags": [{"Key": "a", "Value": "1"}]}, {"Name": "tag:a", "Values": ["1"]})
    True
    """
    name, values = str(wanted["Name"]), wanted["Values"]
    tags = {each["Key"]: each["Value"] for each in shown.get("Tags", ())}
    if name.startswith("tag:"):
        return tags.get(name[4:]) in values
    if name == "tag-key":
        return any(value in tags for value in values)
    fields = {"state": "State", "owner-id": "OwnerId", "instance-match-criteria": "InstanceMatchCriteria"}
    if name not in fields:
        raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return shown.get(fields[name]) in values


def _shown(one: Reservation, backend: Any) -> dict[str, Any]:
    RESERVATIONS.release_ended(backend)
    cancelled = "cancelled" if one.id in RESERVATIONS.cancelled else "expired"
    return {
        "CapacityReservationId": one.id,
        "OwnerId": owner_of(one.id),
        "InstanceType": one.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": one.zone,
        "Tenancy": "default",
        "TotalInstanceCount": one.count,
        "AvailableInstanceCount": RESERVATIONS.free(one, backend),
        "State": "active" if RESERVATIONS.active(one.id) else cancelled,
        "InstanceMatchCriteria": one.match,
        "ReservationType": one.kind,
        "Interruptible": one.interruptible,
        "Tags": [{"Key": key, "Value": value} for key, value in one.tags.items()],
        **({"EndDate": one.ends_at, "EndDateType": "limited"} if one.ends_at else {"EndDateType": "unlimited"}),
    }


def install(aws: LocalAws) -> None:
    """Install the action in moto, and the knob."""
    describe = EC2Response.describe_instances

    def describe_instances(response: Any) -> ActionResult:
        RESERVATIONS.release_ended(response.ec2_backend)
        answer: ActionResult = describe(response)
        return answer

    wrap_attribute(EC2Response, "describe_instances", describe_instances, describe)
    replace_attribute(EC2Response, "describe_capacity_reservations", describe_capacity_reservations)
    add_items(utils, "filter_dict_attribute_mapping", {"capacity-reservation-id": "capacity_reservation_id"})
    aws.add_knobs({"reservations": set_reservations})
