"""When a schedule is due: `rate(...)`, `cron(...)` and `at(...)` of EventBridge Scheduler, in a time zone.

Source: EventBridge Scheduler user guide, "Schedule types". A local time that daylight saving skips is skipped; one that
it repeats counts once. Cron's letter W (nearest weekday) is refused.

>>> noon = dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.UTC).timestamp()
>>> fires = Cron.parse("cron(30 9 ? * MON-FRI *)", "Europe/Berlin").after(noon)
>>> dt.datetime.fromtimestamp(fires, dt.UTC).isoformat()
'2026-11-23T08:30:00+00:00'
"""

import calendar
import datetime as dt
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 1)}
YEARS_AHEAD = 5  # a cron that matches no day until then is never due


class InvalidExpression(ValueError):
    """Not a schedule expression that Scheduler (or this module) accepts."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Every `seconds`, first at the start."""

    seconds: int

    def first(self, start: float) -> float | None:
        return start

    def after(self, previous: float) -> float | None:
        return previous + self.seconds


@dataclass(frozen=True, slots=True)
class Once:
    at: float

    def first(self, start: float) -> float | None:
        return self.at if self.at >= start else None

    def after(self, previous: float) -> float | None:
        return self.at if self.at > previous else None


@dataclass(frozen=True, slots=True)
class Cron:
    """Sets of minutes, hours, ...; days of the month and of the week as they are written, because `L` and `#` depend on
    the month.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days_of_month: str
    months: frozenset[int]
    days_of_week: str
    years: frozenset[int]
    zone: dt.tzinfo

    @classmethod
    def parse(cls, expression: str, zone: str = "UTC") -> "Cron":
        fields = expression.removeprefix("cron(").removesuffix(")").split()
        if len(fields) != 6:
            raise InvalidExpression(f"Invalid Schedule Expression {expression}: six fields are needed.")
        minute, hour, day, month, weekday, year = fields
        if (day == "?") == (weekday == "?"):
            raise InvalidExpression(
                f"Invalid Schedule Expression {expression}: one of day-of-month and day-of-week must be '?'."
            )
        cron = cls(
            minutes=_numbers(minute, 0, 59),
            hours=_numbers(hour, 0, 23),
            days_of_month=day,
            months=_numbers(month, 1, 12, MONTHS),
            days_of_week=weekday,
            years=_numbers(year, 1970, 2199),
            zone=_zone(zone),
        )
        list(cron._days(2028, 2))  # raises for an invalid value
        return cron

    def first(self, start: float) -> float | None:
        return self.after(start - 1)

    def after(self, previous: float) -> float | None:
        """Return the first time later than that; None if there is none in the next years."""
        local = dt.datetime.fromtimestamp(previous, self.zone)
        year = local.year
        for month_number in range(local.month, local.month + 12 * YEARS_AHEAD):
            month_year, month = year + (month_number - 1) // 12, (month_number - 1) % 12 + 1
            if month_year not in self.years or month not in self.months:
                continue
            for day in self._days(month_year, month):
                if dt.date(month_year, month, day) < local.date():
                    continue
                for time in self._times(month_year, month, day):
                    if time > previous:
                        return time
        return None

    def _times(self, year: int, month: int, day: int) -> Iterator[float]:
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                wanted = dt.datetime(year, month, day, hour, minute, tzinfo=self.zone)
                there = dt.datetime.fromtimestamp(wanted.timestamp(), self.zone)
                if (there.hour, there.minute) == (hour, minute):  # else daylight saving skips it
                    yield wanted.timestamp()

    def _days(self, year: int, month: int) -> list[int]:
        last = calendar.monthrange(year, month)[1]
        if self.days_of_week == "?":
            if self.days_of_month == "L":
                return [last]
            return sorted(day for day in _numbers(self.days_of_month, 1, 31) if day <= last)
        wanted: set[int] = set()
        for part in self.days_of_week.split(","):
            wanted |= _weekdays(part, year, month, last)
        return sorted(wanted)


def _weekdays(part: str, year: int, month: int, last: int) -> set[int]:
    """Return the days of a month for `MON-FRI`, `6#3` (the third Friday), `6L` (the last Friday) or `L` (Saturday)."""

    def of(weekday: int) -> list[int]:
        return [day for day in range(1, last + 1) if dt.date(year, month, day).isoweekday() % 7 + 1 == weekday]

    if "#" in part:
        weekday, nth = part.split("#")
        found = of(_number(weekday, DAYS))
        return set(found[int(nth) - 1 : int(nth)])
    if part.endswith("L"):
        return set(of(_number(part[:-1], DAYS))[-1:]) if part != "L" else set(of(7))
    return {day for weekday in _numbers(part, 1, 7, DAYS) for day in of(weekday)}


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.upper() in names:
        return names[text.upper()]
    if not text.isdigit():
        raise InvalidExpression(f"Invalid Schedule Expression: {text!r} is not known here.")
    return int(text)


def _numbers(field: str, low: int, high: int, names: Mapping[str, int] | None = None) -> frozenset[int]:
    """
    >>> sorted(_numbers("0/20,5,7-8", 0, 59))
    [0, 5, 7, 8, 20, 40]
    """
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span in ("*", "?"):
            start, end = low, high
        elif "-" in span:
            start, end = (_number(side, names or {}) for side in span.split("-", 1))
        else:
            start = _number(span, names or {})
            end = high if step else start
        if not low <= start <= end <= high:
            raise InvalidExpression(f"Invalid Schedule Expression: {part!r} is not within {low}-{high}.")
        found.update(range(start, end + 1, _number(step, {}) if step else 1))
    return frozenset(found)


def _zone(name: str) -> dt.tzinfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidExpression(f"Invalid Schedule Expression timezone {name}.") from error


def parse(expression: str, zone: str = "UTC") -> Rate | Once | Cron:
    """Parse the expression of a schedule. Raises InvalidExpression.

    >>> parse("rate(5 minutes)")
    Rate(seconds=300)
    """
    rate = re.fullmatch(r"rate\(([1-9]\d*) (minute|hour|day)s?\)", expression)
    if rate is not None:
        return Rate(int(rate[1]) * SECONDS[rate[2]])
    once = re.fullmatch(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)", expression)
    if once is not None:
        return Once(dt.datetime.fromisoformat(once[1]).replace(tzinfo=_zone(zone)).timestamp())
    if re.fullmatch(r"cron\([^)]+\)", expression):
        return Cron.parse(expression, zone)
    raise InvalidExpression(f"Invalid Schedule Expression {expression}.")
