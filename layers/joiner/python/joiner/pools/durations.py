"""Durations in Karpenter's manifests (``30s``, ``1h30m``, ``Never``) as seconds; None for Never.

>>> parse_duration("1h30m"), parse_duration("720h"), parse_duration("Never")
(5400, 2592000, None)
>>> format_duration(5400), format_duration(30), format_duration(None)
('1h30m', '30s', 'Never')
"""

import re

PATTERN = re.compile(r"([0-9]+(s|m|h))+")
SECONDS = {"h": 3600, "m": 60, "s": 1}


def parse_duration(text: str) -> int | None:
    """Return seconds, or None for ``Never``. ValueError for any other text."""
    if text == "Never":
        return None
    if not PATTERN.fullmatch(text):
        raise ValueError(f"{text!r} is no duration")
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9]+)(s|m|h)", text))


def read_duration(value: object) -> int | None:
    """Return seconds; None for ``Never``, for no value, and for every value that is no duration.

    >>> read_duration("10m"), read_duration("soon"), read_duration(None)
    (600, None, None)
    """
    try:
        return parse_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None


def format_duration(seconds: int | None) -> str:
    """Return the duration as text that ``parse_duration`` reads."""
    if seconds is None:
        return "Never"
    parts: list[str] = []
    left = seconds
    for unit, size in SECONDS.items():
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
