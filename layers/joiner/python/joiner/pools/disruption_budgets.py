"""Disruption budgets: how many nodes of a pool may be disrupted at one time, for one reason.

Source: Karpenter, core `pkg/apis/v1/nodepool.go` (GetAllowedDisruptionsByReason). Of all active budgets for the reason,
the strictest counts. A percentage is rounded up. A budget becomes active by its schedule and stays active for its
duration.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from joiner.pools.node_pool import DisruptionBudget

Reason = Literal["Empty", "Underutilized", "Drifted"]

NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LONGEST: Final = timedelta(days=366)
FIELD: Final = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")

Schedule = tuple[frozenset[int], frozenset[int], frozenset[int], frozenset[int], frozenset[int], bool]
"""Minutes, hours, days of the month, months, days of the week; and whether a day must be in both lists of days or only
in one.
"""


def count_allowed_disruptions(budgets: Iterable[DisruptionBudget], reason: Reason, *, nodes: int, now: datetime) -> int:
    """Return how many of a pool's `nodes` may be in disruption at `now` for `reason`.

    Nodes that are already in disruption count against the result.

    >>> noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> share, three = DisruptionBudget("10%"), DisruptionBudget("3", reasons=("Empty",))
    >>> count_allowed_disruptions([share, three], "Empty", nodes=11, now=noon)
    2
    >>> saturday = DisruptionBudget("0", schedule="0 9 * * sat", duration=8 * 3600)
    >>> count_allowed_disruptions([saturday], "Empty", nodes=11, now=noon)
    0
    """
    mine = [each for each in budgets if not each.reasons or reason in each.reasons]
    try:
        return min((_nodes(each.nodes, nodes) for each in mine if is_active(each, now)), default=nodes)
    except ValueError:  # an invalid schedule allows nothing
        return 0


def is_active(budget: DisruptionBudget, now: datetime) -> bool:
    """Return whether the budget is active at `now`. ValueError if its schedule is not valid."""
    if budget.schedule is None or budget.duration is None:
        return True
    times = parse_schedule(budget.schedule)
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    began = now - min(timedelta(seconds=budget.duration), LONGEST)
    while minute > began:
        if _falls_on(times, minute):
            return True
        # Skips whole days without a start, because a budget may last for weeks
        minute -= (
            timedelta(minutes=1)
            if _day_matches(times, minute)
            else timedelta(hours=minute.hour, minutes=minute.minute + 1)
        )
    return False


def parse_schedule(text: str) -> Schedule:
    """Read five fields of cron, in UTC. ValueError if the text is not valid.

    >>> sorted(parse_schedule("*/20 9-10 * * mon,fri")[0]), sorted(parse_schedule("*/20 9-10 * * mon,fri")[4])
    ([0, 20, 40], [1, 5])
    """
    fields = NAMED.get(text, text).lower().split()
    if len(fields) != 5:
        raise ValueError(f"{text!r} has {len(fields)} fields; cron has five")
    minute, hour, day, month, weekday = fields
    both = "*" in (day, weekday)
    days_of_week = frozenset(each % 7 for each in _values(weekday, 0, 7, DAYS))
    return (
        _values(minute, 0, 59),
        _values(hour, 0, 23),
        _values(day, 1, 31),
        _values(month, 1, 12, ("", *MONTHS)),
        days_of_week,
        both,
    )


def _nodes(said: str, nodes: int) -> int:
    """Return a number of nodes; a percentage is rounded up."""
    if said.endswith("%"):
        return -(-nodes * int(said[:-1]) // 100)
    return int(said)


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


def _falls_on(times: Schedule, minute: datetime) -> bool:
    return minute.minute in times[0] and minute.hour in times[1] and _day_matches(times, minute)


def _day_matches(times: Schedule, moment: datetime) -> bool:
    of_month, of_week = moment.day in times[2], moment.isoweekday() % 7 in times[4]
    return moment.month in times[3] and ((of_month and of_week) if times[5] else (of_month or of_week))
