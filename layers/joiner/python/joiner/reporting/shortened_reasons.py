"""Reasons in the answers of functions: how many, and how long, so that a state's data stays below its limit."""

from collections.abc import Iterable
from typing import Final

REASON_AT_MOST: Final = 300
"""Characters of one reason in an answer. A state's data is limited to 256 KiB, and States.ALL does not catch
States.DataLimitExceeded.
"""

REASONS_SHOWN: Final = 20
"""Reasons in the answer of a function. People read it in the console; it must stay far below the payload limit."""


def shortened(reasons: Iterable[str], most: int = REASONS_SHOWN) -> list[str]:
    """Return the first `most` reasons, none longer than `REASON_AT_MOST`; the last one counts those that are left out.

    >>> shortened(["a", "b", "c"], 2)
    ['a', 'and 2 more']
    """
    found = [reason[:REASON_AT_MOST] for reason in reasons]
    return found if len(found) <= most else [*found[: most - 1], f"and {len(found) - most + 1} more"]
