"""The replicas of a static pool by time of day, from its annotation ``joiner.dev/schedule``.

While a window of the schedule is open, its number counts instead of ``spec.replicas``; of several open windows, the
first one counts. A window begins by a cron schedule in a time zone and lasts for its duration. A window that can never
begin, such as one of the 31st of February, is never open; the others count.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, Self

from joiner.pools.cron_schedules import CronSchedule
from joiner.pools.durations import read_duration
from joiner.pools.time_zones import DEFAULT_TIME_ZONE, read_time_zone

ZONED: Final = re.compile(r"(?:(?P<zone>[A-Za-z][\w+/-]*): *)?(?P<windows>.+)")
WINDOW: Final = re.compile(r"(?P<cron>.+?) +for +(?P<duration>\w+) *= *(?P<replicas>\d{1,4})")
LONGEST: Final = 31 * 24 * 3600


@dataclass(frozen=True, slots=True)
class ReplicaWindow:
    """One window as it is written: its start, its duration in seconds, and the number of nodes while it is open."""

    text: str
    start: CronSchedule
    seconds: int
    replicas: int

    def is_open(self, now: datetime, zone: tzinfo) -> bool:
        """Return whether the window started less than its length ago."""
        return self.start.started_within(now - timedelta(seconds=self.seconds), now, zone)


@dataclass(frozen=True, slots=True)
class ReplicaSchedule:
    """The windows of one pool, in order, and their time zone."""

    windows: tuple[ReplicaWindow, ...]
    zone: tzinfo = DEFAULT_TIME_ZONE

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a schedule. ValueError if the text is not valid.

        >>> working_hours = ReplicaSchedule.parse("Europe/Oslo: 0 8 * * mon-fri for 10h = 6; 0 10 * * sat for 4h = 2")
        >>> [(each.seconds, each.replicas) for each in working_hours.windows], str(working_hours.zone)
        ([(36000, 6), (14400, 2)], 'Europe/Oslo')
        """
        found = ZONED.fullmatch(text.strip())
        if found is None:
            raise ValueError("it is empty")
        zone = read_time_zone(found["zone"]) if found["zone"] else DEFAULT_TIME_ZONE
        if zone is None:
            raise ValueError(f"{found['zone']} is no known time zone")
        windows = tuple(_read_window(part.strip()) for part in found["windows"].split(";") if part.strip())
        if not windows:
            raise ValueError("it has no window")
        return cls(windows, zone)

    @property
    def opens(self) -> bool:
        """Return whether one of its windows can begin."""
        return any(each.start.occurs for each in self.windows)

    def describe_idle_windows(self) -> tuple[str, ...]:
        """Return, for each window that can never begin, that it has no effect.

        >>> ReplicaSchedule.parse("0 8 * * mon-fri for 10h = 6; 0 0 31 2 * for 1h = 2").describe_idle_windows()
        ("'0 0 31 2 * for 1h = 2' never begins, so that it has no effect: correct it",)
        """
        return tuple(
            f"{each.text!r} never begins, so that it has no effect: correct it"
            for each in self.windows
            if not each.start.occurs
        )

    def replicas_at(self, now: datetime) -> int | None:
        """Return the number of nodes by the schedule at `now`; None if no window is open.

        >>> nightly = ReplicaSchedule.parse("0 22 * * * for 2h = 0")
        >>> [nightly.replicas_at(datetime(2026, 11, 23, hour, tzinfo=DEFAULT_TIME_ZONE)) for hour in (21, 22, 23)]
        [None, 0, 0]
        """
        return next((each.replicas for each in self.windows if each.is_open(now, self.zone)), None)


def _read_window(text: str) -> ReplicaWindow:
    found = WINDOW.fullmatch(text)
    seconds = read_duration(found["duration"]) if found else None
    if found is None or not seconds or seconds > LONGEST:
        raise ValueError(f"{text!r} is no window of at most 31 days")
    return ReplicaWindow(text, CronSchedule.parse(found["cron"]), seconds, int(found["replicas"]))
