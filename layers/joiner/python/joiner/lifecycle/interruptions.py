"""EventBridge events about instances that are interrupted, at risk or gone: one value for all kinds of event.

Events arrive at least once, late, or not at all, so each is only a reason to check the instance. Shapes: the
EventBridge reference for EC2 and for AWS Health; EC2 user guide, "Monitor interruptible Capacity Reservations" and
"Monitor Capacity Blocks using EventBridge".

>>> kind = "EC2 Spot Instance Interruption Warning"
>>> warning = {"source": "aws.ec2", "detail-type": kind, "detail": {"instance-id": "i-0a"}}
>>> [(each.kind, each.instance) for each in read_interruptions(warning)]
[(<InterruptionKind.SPOT: 'spot interruption'>, 'i-0a')]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Final

from joiner.lifecycle.retirement import RetirementReason
from joiner.pools.timestamps import parse_timestamp


class InterruptionKind(Enum):
    """The kind of an event about an instance."""

    SPOT = "spot interruption"
    REBALANCE = "rebalance recommendation"
    STATE = "state change"
    HEALTH = "scheduled maintenance"
    RESERVATION = "capacity reservation interruption"
    CAPACITY_BLOCK = "end of a capacity block"


@dataclass(frozen=True, slots=True)
class Interruption:
    """One instance and the content of its event.

    `state` is the instance's new state if the event has one, `event_at` the event's time, `ends_at` the time of the
    interruption if the event has one. The event of a capacity block names its `reservation` and no instance.
    """

    kind: InterruptionKind
    instance: str = ""
    state: str = ""
    event_at: datetime | None = None
    ends_at: datetime | None = None
    reservation: str = ""

    @property
    def reason(self) -> RetirementReason | None:
        """Return why its node is drained; None if the event is no reason for a drain by itself."""
        return _REASONS.get(self.kind)

    @property
    def is_loss(self) -> bool:
        """Return whether it is gone, stopped or about to be, with or without Joiner."""
        return self.kind is InterruptionKind.STATE

    def drained_by(self, now: datetime) -> datetime | None:
        """Return until when its node can be drained; None without a limit.

        Scheduled maintenance that has begun may happen at any time, so its start is no limit any more.
        """
        if self.kind is InterruptionKind.HEALTH:
            return self.ends_at if self.ends_at is not None and self.ends_at > now else None
        notice = BLOCK_NOTICE if self.kind is InterruptionKind.CAPACITY_BLOCK else NOTICE
        return self.ends_at or (self.event_at or now) + notice


_OF_EC2: Final = {
    "EC2 Spot Instance Interruption Warning": InterruptionKind.SPOT,
    "EC2 Instance Rebalance Recommendation": InterruptionKind.REBALANCE,
    "EC2 Instance State-change Notification": InterruptionKind.STATE,
    "EC2 Capacity Reservation Instance Interruption Warning": InterruptionKind.RESERVATION,
    # The user guide and the EventBridge reference differ in the name
    "Capacity Block Reservation Expiration Warning": InterruptionKind.CAPACITY_BLOCK,
    "Capacity Block Expiration Warning": InterruptionKind.CAPACITY_BLOCK,
}

_REASONS: Final = {
    InterruptionKind.SPOT: RetirementReason.SPOT,
    InterruptionKind.RESERVATION: RetirementReason.RESERVATION,
    InterruptionKind.CAPACITY_BLOCK: RetirementReason.RESERVATION,
    InterruptionKind.HEALTH: RetirementReason.MAINTENANCE,
}

NOTICE: Final = timedelta(minutes=2)
"""From the warning to the interruption: EC2 user guide, "Spot Instance interruption notices"."""

BLOCK_NOTICE: Final = timedelta(minutes=10)
"""From the warning to the first termination in a capacity block, half an hour before the block ends."""

RESOLVED: Final = frozenset({"RESOLVED", "UNIMPAIRED"})
"""Status of an entity of AWS Health that the event does not affect any more."""

ENDING_STATES: Final = frozenset({"stopping", "stopped", "shutting-down", "terminated"})
"""States of an instance that runs nothing any more, or soon will not."""


class UnknownEvent(ValueError):
    """An event of a kind that the rules do not select; the message names it."""


def read_interruptions(event: Mapping[str, Any]) -> tuple[Interruption, ...]:
    """Return the instances of an EventBridge event; none for an instance that starts.

    Raises UnknownEvent for any other event, so that an unreadable message is logged and dropped, and is not received
    forever.
    """
    try:
        source, kind, detail = str(event["source"]), str(event["detail-type"]), event["detail"]
        if source == "aws.ec2" and kind in _OF_EC2:
            return _of_ec2(_OF_EC2[kind], detail, _time(event.get("time")))
        if source == "aws.health" and kind == "AWS Health Event":
            return _of_health(detail)
    except (KeyError, TypeError, AttributeError) as reason:
        raise UnknownEvent(f"an event without a usable {reason}") from reason
    raise UnknownEvent(f"{kind} from {source}")


def _of_ec2(kind: InterruptionKind, detail: Mapping[str, Any], event_at: datetime | None) -> tuple[Interruption, ...]:
    state = str(detail.get("state", ""))
    if kind is InterruptionKind.STATE and state not in ENDING_STATES:
        return ()
    if kind is InterruptionKind.CAPACITY_BLOCK:
        return (Interruption(kind, event_at=event_at, reservation=str(detail["capacity-reservation-id"])),)
    ends_at = _time(detail.get("instance-termination-time"))
    return (Interruption(kind, str(detail["instance-id"]), state, event_at, ends_at),)


def _time(raw: Any) -> datetime | None:
    try:
        moment = parse_timestamp(raw)
    except (TypeError, ValueError):
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _health_time(raw: Any) -> datetime | None:
    """Read a time of AWS Health, such as ``Fri, 27 Nov 2026 04:00:00 GMT``."""
    try:
        moment = parsedate_to_datetime(raw)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _of_health(detail: Mapping[str, Any]) -> tuple[Interruption, ...]:
    if (
        detail["service"] != "EC2"
        or detail["eventTypeCategory"] != "scheduledChange"
        or detail.get("statusCode") == "closed"
    ):
        return ()
    affected = (each for each in detail.get("affectedEntities", ()) if each.get("status") not in RESOLVED)
    entities = {str(entity["entityValue"]) for entity in affected}
    starts = _health_time(detail.get("startTime"))
    return tuple(
        Interruption(InterruptionKind.HEALTH, entity, ends_at=starts)
        for entity in sorted(entities)
        if entity.startswith("i-")
    )
