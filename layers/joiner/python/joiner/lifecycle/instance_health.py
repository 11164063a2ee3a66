"""EC2's status checks and scheduled events of instances: which nodes are drained because of them, and until when.

An instance whose status checks fail for two minutes is retired at once: its pods probably run no more, and nothing is
awaited. As in node repair, this is blocked while the checks of more than a fifth of a pool's instances fail, because
the cause is then probably not the instances. A scheduled event is known days before; the node is drained gracefully
until its start. Sources: Karpenter, AWS provider `pkg/controllers/interruption`; EC2 user guide, "Status checks for
your instances" and "Scheduled events for your instances".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from joiner.lifecycle.node_health import UNHEALTHY_PERCENT, are_too_many_unhealthy
from joiner.lifecycle.retirement import RetirementReason

EVENT_CODES: Final = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")

IMPAIRED: Final = "impaired"

IMPAIRED_FOR: Final = timedelta(seconds=120)
"""Failing checks for a shorter time may be a reboot or a short loss of the network."""

_OVER: Final = ("[Completed]", "[Canceled]", "[Cancelled]")
"""EC2 shows an event for a week after its end, with one of these before its description."""


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """One scheduled event of an instance; `starts` is its earliest start."""

    code: str
    description: str = ""
    starts: datetime | None = None

    @property
    def pending(self) -> bool:
        """Return whether the event will happen, or happens now."""
        return self.code in EVENT_CODES and not self.description.startswith(_OVER)


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The status checks of one instance (``ok``, ``impaired`` and others), and its scheduled events.

    The status of attached EBS volumes is not considered.
    """

    instance: str
    system: str = ""
    own: str = ""
    events: tuple[ScheduledEvent, ...] = ()

    @property
    def impaired(self) -> bool:
        """Return whether a check of its host or of itself fails."""
        return IMPAIRED in (self.system, self.own)

    @classmethod
    def from_ec2(cls, message: Mapping[str, Any]) -> "InstanceStatus":
        """Read one entry of the answer of DescribeInstanceStatus."""
        events = (
            ScheduledEvent(str(each.get("Code", "")), str(each.get("Description", "")), each.get("NotBefore"))
            for each in message.get("Events") or ()
        )
        return cls(
            instance=str(message["InstanceId"]),
            system=str((message.get("SystemStatus") or {}).get("Status", "")),
            own=str((message.get("InstanceStatus") or {}).get("Status", "")),
            events=tuple(events),
        )


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """An instance whose node must be drained, and until when; None for no limit."""

    instance: str
    reason: RetirementReason
    message: str
    drained_by: datetime | None = None


def find_impaired(statuses: Iterable[InstanceStatus], ours: Collection[str]) -> frozenset[str]:
    """Return those of `ours` whose status checks fail now."""
    return frozenset(each.instance for each in statuses if each.impaired and each.instance in ours)


def find_impaired_pools(impaired: Collection[str], pools: Mapping[str, str]) -> Mapping[str, str]:
    """Return the pools whose impaired instances are not retired, because they are too many: the message by pool key.

    `pools` gives the pool key of each instance. Instances without a pool are never too many.

    >>> pools = {f"i-{number}": "NodePool/web" for number in range(10)}
    >>> find_impaired_pools(["i-0", "i-1"], pools)
    {}
    >>> find_impaired_pools(["i-0", "i-1", "i-2"], pools)
    {'NodePool/web': 'status checks of 3 of 10 instances fail, more than 20 %: none is retired for it'}
    """
    total = Counter(pool for pool in pools.values() if pool)
    failing = Counter(pools[instance] for instance in impaired if pools.get(instance))
    return {
        pool: f"status checks of {failing[pool]} of {total[pool]} instances fail, more than {UNHEALTHY_PERCENT} %: "
        "none is retired for it"
        for pool in sorted(failing)
        if are_too_many_unhealthy(failing[pool], total[pool])
    }


def judge_health(
    statuses: Iterable[InstanceStatus],
    impaired_since: Mapping[str, int],
    now: datetime,
    *,
    blocked: Collection[str] = frozenset(),
) -> list[HealthFinding]:
    """Return the instances to drain. `impaired_since` is the first sight of each failing instance (epoch seconds).
    `blocked` instances are not retired for an impairment.

    The start of a scheduled event is the limit of the drain. An event that has started may happen at any time, so it
    sets no limit.
    """
    found = []
    for status in sorted(statuses, key=lambda each: each.instance):
        since = impaired_since.get(status.instance)
        if status.instance in blocked:
            since = None
        if status.impaired and since is not None and now.timestamp() - since >= IMPAIRED_FOR.total_seconds():
            message = f"status checks of instance {status.instance} have failed for {int(now.timestamp()) - since} s"
            found.append(HealthFinding(status.instance, RetirementReason.IMPAIRED, message, now))
        for event in sorted((each for each in status.events if each.pending), key=lambda each: each.code):
            until = event.starts if event.starts is not None and event.starts > now else None
            when = f"from {event.starts:%Y-%m-%d %H:%M} UTC" if event.starts is not None else "now"
            message = f"AWS has scheduled {event.code} for instance {status.instance} {when}"
            found.append(HealthFinding(status.instance, RetirementReason.MAINTENANCE, message, until))
    return found
