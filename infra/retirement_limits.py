"""Waits, timeouts and limits of the retirement machines. Times are in seconds."""

from dataclasses import dataclass
from typing import Final

RETIREMENT_LEASE_ATTEMPTS: Final = 20
"""After a minute without the lease, the claims are left to the next sweep."""

MAX_DUE_WAIT_SECONDS: Final = 90
"""Longest wait until a claim is due. The sweep starts no retirement earlier (`AHEAD` in
`joiner.lifecycle.emptiness`)."""

MAX_NOTES_WAIT_SECONDS: Final = 5
"""Longest wait for the notes of interrupted instances: an execution starts at most this long before the second from
which it reads them (`ATTEMPTS` in `joiner.adapters.executions`)."""

LAUNCH_RECORD_ATTEMPTS: Final = 10
LAUNCH_RECORD_RETRY_SECONDS: Final = 3
"""An instance may be lost before its launch is recorded. Its claim can be retired some seconds later, when it is."""

CONCURRENT_GROUPS: Final = 2
"""Groups of claims that one execution retires at the same time; it has three at most."""

CONCURRENT_WAVES: Final = 5

MAX_ROUNDS_OF_WAVE: Final = 90
"""Rounds after which a wave ends although its claims progress. All waves share one history, which ends at 25,000
events. A round in which every function has work writes 41, and 100 claims of both kinds make six waves at most."""

TERMINATION_POLL_SECONDS: Final = 15
"""Longest time between two rounds while instances shut down."""

SHORT_PAUSE_SECONDS: Final = 4
ROUNDS_BETWEEN_PAUSE_CHECKS: Final = 5
"""The pause parameter is read before each round that is more than `SHORT_PAUSE_SECONDS` away, and before every fifth
round."""


@dataclass(frozen=True, slots=True)
class RetirementLimits:
    """How long an execution runs, in seconds.

    `seconds` is its timeout. After `last_round_after` it starts no further round, even if nodes are blocked. While pods
    are evicted, two rounds are at most `longest_pause` apart. `rounds` is the number of rounds after which a wave ends.
    """

    seconds: int
    last_round_after: int
    longest_pause: int
    rounds: int = MAX_ROUNDS_OF_WAVE


STANDARD_LIMITS: Final = RetirementLimits(seconds=3600, last_round_after=1800, longest_pause=60)
"""Limits of a Standard execution."""

EXPRESS_LIMITS: Final = RetirementLimits(seconds=290, last_round_after=225, longest_pause=15)
"""Limits of an Express execution, which AWS ends after 300 seconds. Its last round starts after four minutes at most,
and has most of another minute. Before its first round it may wait 90 seconds for a claim to be due, and 60 for the
lease."""
