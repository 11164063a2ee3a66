"""How many nodes the budgets of a NodePool allow to disrupt, from its manifest, without Joiner's code.

Sources: Karpenter, "Disruption" (NodePool disruption budgets); Kubernetes, "CronJob" (schedule syntax). A schedule is
read minute by minute: of the minutes of a budget's duration, does one match?

>>> noon = datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Saturday
>>> budgets = [{"nodes": "25%"}, {"nodes": "0", "reasons": ["Empty"]}]
>>> pool = {"metadata": {}, "spec": {"disruption": {"budgets": budgets}}}
>>> count_allowed(pool, "Drifted", nodes=5, at=noon), count_allowed(pool, "Empty", nodes=5, at=noon)
(2, 0)
>>> window = {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h30m"}
>>> is_open(window, noon, UTC), is_open(window, noon - timedelta(days=1), UTC)
(False, True)
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from joiner_local.control_plane.kube_api import Object

BUDGET_ZONE: Final = "joiner.dev/budget-time-zone"
DEFAULT: Final = [{"nodes": "10%"}]
MACROS: Final = {
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
BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")

Budget = Mapping[str, Any]


def count_allowed(pool: Object, reason: str, *, nodes: int, at: datetime) -> int:
    """Return how many of the pool's `nodes` may be disrupted at a time for a reason; leaving ones count as disrupted.

    A Provisioner has no budgets.
    """
    if "template" not in pool["spec"] and "disruption" not in pool["spec"]:
        return nodes
    zone = ZoneInfo((pool["metadata"].get("annotations") or {}).get(BUDGET_ZONE, "UTC"))
    budgets = pool["spec"].get("disruption", {}).get("budgets", DEFAULT)
    active = [each for each in budgets if reason in (each.get("reasons") or [reason]) and is_open(each, at, zone)]
    return min((_amount(str(each["nodes"]), nodes) for each in active), default=nodes)


def seconds(duration: str) -> float:
    """Return the length of a duration.

    >>> seconds("1h30m"), seconds("90s"), seconds("720h")
    (5400.0, 90.0, 2592000.0)
    """
    if "".join(number + unit for number, unit in PART.findall(duration)) != duration or not duration:
        raise ValueError(f"{duration!r} is no duration")
    return sum(float(number) * UNITS[unit] for number, unit in PART.findall(duration))


def is_open(budget: Budget, at: datetime, zone: tzinfo) -> bool:
    """Return whether a budget holds at a time: always without a schedule, else for its duration after each start."""
    if not budget.get("schedule"):
        return True
    minutes = int(seconds(budget["duration"]) // 60)
    last = at.astimezone(UTC).replace(second=0, microsecond=0)
    return any(
        _matches(str(budget["schedule"]), (last - timedelta(minutes=back)).astimezone(zone)) for back in range(minutes)
    )


def _matches(schedule: str, at: datetime) -> bool:
    fields = MACROS.get(schedule, schedule).lower().split()
    minute, hour, day, month, weekday = (
        _values(text, bounds, names)
        for text, bounds, names in zip(fields, BOUNDS, ((), (), (), MONTHS, DAYS), strict=True)
    )
    on_day, on_weekday = at.day in day, at.isoweekday() % 7 in weekday
    either = not (fields[2].startswith("*") or fields[4].startswith("*"))  # if both are restricted, one is enough
    return (
        at.minute in minute
        and at.hour in hour
        and at.month in month
        and ((on_day or on_weekday) if either else (on_day and on_weekday))
    )


def _values(text: str, bounds: tuple[int, int], names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if span in ("*", "?"):
            begin, end = bounds
        else:
            begin = _value(first, bounds, names)
            end = _value(last, bounds, names) if last else (bounds[1] if step else begin)
        found.update(range(begin, end + 1, int(step or 1)))
    return {0 if each == 7 and names == DAYS else each for each in found}


def _value(text: str, bounds: tuple[int, int], names: tuple[str, ...]) -> int:
    return names.index(text) + bounds[0] if text in names else int(text)


def _amount(value: str, nodes: int) -> int:
    return math.ceil(nodes * int(value[:-1]) / 100) if value.endswith("%") else int(value)
