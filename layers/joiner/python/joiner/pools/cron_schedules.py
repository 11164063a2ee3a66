"""Cron schedules of disruption budgets: five fields or a name such as ``@daily``, in the time zone of the pool.

The rules are those of the parser that Karpenter uses (robfig/cron, ParseStandard), because the same manifest must mean
the same in both. If both lists of days are restricted, a day must be in one of them, otherwise in both; ``*/2`` counts
as a restriction, ``*``, ``?`` and ``*/1`` do not. One extension: 7 is a Sunday, as in most other implementations.

A time that does not exist when clocks are set forward is no start, and a time that occurs twice is two starts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS: Final = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
LONGEST_MONTHS: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""The most days of each month, by its number."""
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELD: Final = re.compile(r"(?:[*?]|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")
EVERY_DAY: Final = re.compile(r"[*?](?:/0*1)?")


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The minutes at which something starts. With ``both`` a day must be in both lists of days, else in one of them."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both: bool

    @classmethod
    def parse(cls, text: str) -> "CronSchedule":
        """Read a schedule. ValueError if the text is not valid.

        >>> often = CronSchedule.parse("*/20 9-10 * * mon,fri")
        >>> sorted(often.minutes), sorted(often.weekdays)
        ([0, 20, 40], [1, 5])
        """
        fields = NAMED.get(text, text).lower().split()
        if len(fields) != 5:
            raise ValueError(f"{text!r} has {len(fields)} fields; cron has five")
        minute, hour, day, month, weekday = fields
        return cls(
            minutes=_values(minute, 0, 59),
            hours=_values(hour, 0, 23),
            days=_values(day, 1, 31),
            months=_values(month, 1, 12, MONTHS),
            weekdays=frozenset(each % 7 for each in _values(weekday, 0, 7, DAYS)),
            both=any(EVERY_DAY.fullmatch(part) for field in (day, weekday) for part in field.split(",")),
        )

    @property
    def occurs(self) -> bool:
        """Return whether it ever starts; the months that it names may lack its days.

        >>> [CronSchedule.parse(text).occurs for text in ("0 0 31 2 *", "0 0 29 2 *", "0 0 31 2 mon", "0 0 31 * *")]
        [False, True, True, True]
        """
        return not self.both or any(min(self.days) <= LONGEST_MONTHS[month] for month in self.months)

    def started_within(self, since: datetime, until: datetime, zone: tzinfo = UTC) -> bool:
        """Return whether a start is after `since` and not after `until`.

        >>> nightly, midnight = CronSchedule.parse("0 1 * * *"), datetime(2026, 11, 21, tzinfo=UTC)
        >>> nightly.started_within(midnight, midnight + timedelta(hours=1))
        True
        """
        first, day = since.astimezone(zone).date(), until.astimezone(zone).date()
        while day >= first:
            if self._includes(day) and any(since < start <= until for start in self._starts(day, zone)):
                return True
            day -= timedelta(days=1)
        return False

    def _starts(self, day: date, zone: tzinfo) -> Iterator[datetime]:
        """Yield the starts of a day in UTC."""
        for hour in self.hours:
            for minute in self.minutes:
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                for fold in (0, 1):
                    start = local.replace(fold=fold).astimezone(UTC)
                    if start.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                        yield start

    def _includes(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and ((of_month and of_week) if self.both else (of_month or of_week))


def _values(field: str, low: int, high: int, words: tuple[str, ...] = ()) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = FIELD.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no field of cron")
        first = _number(match["low"], words) if match["low"] else low
        last = _number(match["high"], words) if match["high"] else high if not match["low"] or match["step"] else first
        if not low <= first <= last <= high or match["step"] == "0":
            raise ValueError(f"{part!r} is not within {low} and {high}")
        found.update(range(first, last + 1, int(match["step"] or 1)))
    return frozenset(found)


def _number(word: str, words: tuple[str, ...]) -> int:
    return words.index(word) if word in words else int(word)
