"""Reads the names of time zones in annotations."""

from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def read_time_zone(name: str) -> tzinfo | None:
    """Return the time zone of an IANA name; None for an unknown one, and for a text that is no name.

    >>> str(read_time_zone("Europe/Oslo")), read_time_zone("Oslo"), read_time_zone("../Oslo")
    ('Europe/Oslo', None, None)
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        return None
