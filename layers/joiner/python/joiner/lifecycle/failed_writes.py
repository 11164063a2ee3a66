"""When a write that failed is tried again: after a wait that is as long as the write has failed, up to a limit.

An admission policy may refuse a write until a person changes something. Until then no scale-up each minute tries it
again, and no disruption waits for it.
"""

from dataclasses import dataclass
from typing import Final

LONGEST_WAIT: Final = 15 * 60
"""Seconds between two tries. A person who has changed a policy waits so long at most."""

REPEATED: Final = 2
"""Tries that the same execution may follow by another one at once."""


@dataclass(frozen=True, slots=True)
class FailedWrites:
    """The tries in a row that failed: their number, and the times of the first and of the last one (epoch seconds)."""

    tries: int = 0
    since: int = 0
    at: int = 0

    def wait(self, now: int) -> bool:
        """Return whether no other try is due at `now`.

        >>> [FailedWrites(2, since=0, at=60).wait(now) for now in (60, 119, 120)]
        [True, True, False]
        >>> FailedWrites().wait(0), FailedWrites(9, since=0, at=9000).wait(9899), FailedWrites(1, since=5, at=5).wait(5)
        (False, True, False)
        """
        return now - self.at < min(self.at - self.since, LONGEST_WAIT)

    def repeated(self) -> bool:
        """Return whether the execution of the next try repeats it at once if no answer comes.

        >>> FailedWrites(1).repeated(), FailedWrites(2).repeated()
        (True, False)
        """
        return self.tries < REPEATED

    def plus(self, now: int) -> "FailedWrites":
        """Return the tries with one more, at `now`.

        >>> FailedWrites().plus(100).plus(160)
        FailedWrites(tries=2, since=100, at=160)
        """
        return FailedWrites(self.tries + 1, self.since or now, now)


NONE_FAILED: Final = FailedWrites()
