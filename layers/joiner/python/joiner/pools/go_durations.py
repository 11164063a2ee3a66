"""Durations in the grammar of Go: what Karpenter and the kubelet read where no schema restricts the text.

Source: Go, package `time`, `ParseDuration`: a sign or none, then numbers with a unit each, which may have fractions
(``-1.5h``, ``1h30m0.5s``, ``.5s``, ``100ms``), or ``0``. Fields whose schema has a pattern (`durations.py`), and
the annotations of Joiner itself, allow whole hours, minutes and seconds only.

>>> parse_go_duration("30.5h") == parse_go_duration("109800000ms") == timedelta(hours=30, minutes=30)
True
>>> print(parse_go_duration("-1.5h"), parse_go_duration("0"), parse_go_duration("2d"), parse_go_duration("90"))
-1 day, 22:30:00 0:00:00 None None
"""

import re
from datetime import timedelta
from typing import Final

NANOSECONDS: Final = {
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "\u00b5s": 10**3,  # the micro sign
    "\u03bcs": 10**3,  # the Greek letter mu
    "ns": 1,
}
PART: Final = re.compile(r"(?=[0-9.]*[0-9])([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
DURATION: Final = re.compile(rf"([-+]?)(0|(?:{PART.pattern})+)")
DIGITS: Final = 19
"""Go counts nanoseconds in 64 bits, so no valid number has more digits before its point, and no fraction needs more."""
LONGEST: Final = 2**63 - 1
"""The longest duration of Go in nanoseconds, about 292 years."""


def parse_go_duration(text: object) -> timedelta | None:
    """Return the duration, rounded down to microseconds; None for every value that Go does not parse."""
    found = DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    total = 0
    for whole, decimals, unit in PART.findall(found[2]):
        if len(whole.lstrip("0")) > DIGITS:
            return None
        fraction = decimals[:DIGITS]
        total += int(whole.lstrip("0") or 0) * NANOSECONDS[unit]
        total += int(fraction or 0) * NANOSECONDS[unit] // 10 ** len(fraction)
    if total > LONGEST:
        return None
    return timedelta(microseconds=(-total if found[1] == "-" else total) // 1000)
