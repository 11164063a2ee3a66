"""EventBridge events about instances that are interrupted or gone: one value for the five kinds of event.

Events arrive at least once, late, or not at all, so each is only a reason to check the instance. Shapes: the
EventBridge reference for EC2 and for AWS Health.

>>> kind = "EC2 Spot Instance Interruption Warning"
>>> warning = {"source": "aws.ec2", "detail-type": kind, "detail": {"instance-id": "i-0a"}}
>>> read_interruptions(warning)
(Interruption(kind=<InterruptionKind.SPOT: 'spot interruption'>, instance='i-0a', state='', told_at=None),)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from joiner.pools.timestamps import parse_timestamp


class InterruptionKind(Enum):
    """The kind of an event about an instance."""

    SPOT = "spot interruption"
    REBALANCE = "rebalance recommendation"
    STATE = "state change"
    HEALTH = "scheduled maintenance"
    RESERVATION = "capacity reservation interruption"


@dataclass(frozen=True, slots=True)
class Interruption:
    """One instance and the content of its event. `state` is the instance's new state if the event has one, `told_at`
    the event's time.
    """

    kind: InterruptionKind
    instance: str
    state: str = ""
    told_at: datetime | None = None

    @property
    def is_warning(self) -> bool:
        """Return whether its capacity will be reclaimed, with minutes left to drain it."""
        return self.kind in (InterruptionKind.SPOT, InterruptionKind.RESERVATION)

    @property
    def is_loss(self) -> bool:
        """Return whether it is gone, stopped or about to be, with or without Joiner."""
        return self.kind is InterruptionKind.STATE

    def drained_by(self, now: datetime) -> datetime:
        """Return until when it can be drained after a warning."""
        return (self.told_at or now) + NOTICE


_OF_EC2: Final = {
    "EC2 Spot Instance Interruption Warning": InterruptionKind.SPOT,
    "EC2 Instance Rebalance Recommendation": InterruptionKind.REBALANCE,
    "EC2 Instance State-change Notification": InterruptionKind.STATE,
    "EC2 Capacity Reservation Instance Interruption Warning": InterruptionKind.RESERVATION,
}

NOTICE: Final = timedelta(minutes=2)
"""From the warning to the interruption: EC2 user guide, "Spot Instance interruption notices"."""

_LEAVING: Final = frozenset({"stopping", "stopped", "shutting-down", "terminated"})


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


def _of_ec2(kind: InterruptionKind, detail: Mapping[str, Any], told_at: datetime | None) -> tuple[Interruption, ...]:
    state = str(detail.get("state", ""))
    if kind is InterruptionKind.STATE and state not in _LEAVING:
        return ()
    return (Interruption(kind, str(detail["instance-id"]), state, told_at),)


def _time(said: Any) -> datetime | None:
    try:
        return parse_timestamp(said)
    except (TypeError, ValueError):
        return None


def _of_health(detail: Mapping[str, Any]) -> tuple[Interruption, ...]:
    if (
        detail["service"] != "EC2"
        or detail["eventTypeCategory"] != "scheduledChange"
        or detail.get("statusCode") == "closed"
    ):
        return ()
    entities = (str(entity["entityValue"]) for entity in detail.get("affectedEntities", ()))
    return tuple(
        Interruption(InterruptionKind.HEALTH, entity) for entity in sorted(set(entities)) if entity.startswith("i-")
    )
