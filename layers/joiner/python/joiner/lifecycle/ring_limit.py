"""How many calls of the doorbell count; the others change nothing.

The scheduler reports a pending pod again whenever its message changes, so a burst of pods rings hundreds of times, and
one scale-up plans for all pods. Each new node rings twice, and one check of registration reads all nodes.
"""

from datetime import datetime
from typing import Final

RINGS_A_SECOND: Final = 5
"""How many rings of pods a sandbox counts in a second; a scale-up plans once for all of them."""

RINGS_AT_ONCE: Final = 10
"""How many rings of pods a sandbox counts at once, after a quiet time: each of a few single pods rings."""


NODE_RINGS_A_SECOND: Final = 5
"""How many rings of nodes a sandbox counts in a second. Who is rung reads the nodes half a second after a ring that
counts, when those of the next fifth of a second are stored, too. To store a node takes some hundredths of a second."""


class RingLimit:
    """A token bucket: whether a ring may be counted now.

    >>> from datetime import timedelta
    >>> start = datetime(2026, 11, 21, 5, 17)
    >>> limit = RingLimit(per_second=5, at_once=2)
    >>> [limit.allows(start + timedelta(milliseconds=after)) for after in (0, 0, 0, 100, 200, 300)]
    [True, True, False, False, True, False]
    """

    def __init__(self, *, per_second: int, at_once: int) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._left = float(at_once)
        self._at: datetime | None = None

    def allows(self, now: datetime) -> bool:
        """Return whether this ring may be counted, and take it from the bucket."""
        if self._at is not None:
            passed = max(0.0, (now - self._at).total_seconds())
            self._left = min(float(self._at_once), self._left + passed * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
