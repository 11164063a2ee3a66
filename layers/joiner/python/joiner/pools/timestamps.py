"""Timestamps as the API server writes them (RFC 3339, ``metav1.Time``)."""

from datetime import UTC, datetime


def parse_timestamp(text: str | None) -> datetime | None:
    """Return the time of a timestamp; None for an empty or invalid text.

    >>> parse_timestamp("2026-11-21T05:17:28Z")
    datetime.datetime(2026, 11, 21, 5, 17, 28, tzinfo=datetime.timezone.utc)
    >>> parse_timestamp("2026-13-45T05:17:28Z")
    """
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def format_timestamp(moment: datetime) -> str:
    """Return the time in whole seconds of UTC, as ``metav1.Time`` requires.

    >>> format_timestamp(datetime(2026, 11, 21, 5, 17, 28, 9, tzinfo=UTC))
    '2026-11-21T05:17:28Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
