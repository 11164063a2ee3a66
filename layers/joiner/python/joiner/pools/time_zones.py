"""The time zones of cron schedules in annotations: the default, and how names are read."""

from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DEFAULT_TIME_ZONE: Final[tzinfo] = UTC
"""The time zone of schedules that name none, as in Karpenter."""


def read_time_zone(name: str) -> tzinfo | None:
    """Return the time zone of an IANA name; None for an unknown one, and for a text that is no name.

    >>> str(read_time_zone("Europe/Oslo")), read_time_zone("Oslo"), read_time_zone("../Oslo")
    ('Europe/Oslo', None, None)
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        return None
