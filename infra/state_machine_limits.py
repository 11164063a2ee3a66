"""Waits, timeouts and limits of the state machines. Times are in seconds.

The limits of functions are in `function_configuration.py`. Waits that a user may choose are in `settings.py`.
"""

from dataclasses import dataclass
from typing import Final

# The lease

LEASE_SECONDS: Final = 120
"""Until the first function under the lease renews it; each function renews it for its own timeout and 30 seconds."""

LEASE_RETRY_SECONDS: Final = 3
"""Between two attempts to take the lease. A scale-up has it for seconds."""

# Scale-up

SCALE_UP_TIMEOUT_SECONDS: Final = 3600
"""Timeout of an execution. It gives up a node that has not registered in 15 minutes; an hour bounds everything else."""

MAX_REPLANS: Final = 10
"""Plans of one execution after offerings were short. After that the pods wait for the sweep."""

MAX_LAUNCH_GROUPS: Final = 400
"""Launches of one execution, after which another execution continues. A launch that fails at every attempt writes 33
events, one plan makes up to 300 launches, and a history ends at 25,000 events."""

MAX_SCALE_UP_ROUNDS: Final = 100
"""Rounds of an execution that finds nothing to launch while calls of the doorbell continue. Then another execution
continues, long before the history ends at 25,000 events."""

MAX_THROTTLE_BACKOFF_SECONDS: Final = 16
"""Longest wait before the next plan after EC2 throttled a launch."""

MAX_REGISTRATION_DELAY_SECONDS: Final = 3
"""Time after it begins to launch in which an execution still plans around offerings that were short. Then another
execution does that, and this one checks the registration of its nodes; otherwise Ready nodes would stay tainted
meanwhile."""

# Launches and registration, of scale-ups and disruptions

GROUPS_OF_ONE_INVOCATION: Final = 8
"""Groups that one invocation of launch_instances launches at the same time, in its threads."""

CONCURRENT_INVOCATIONS: Final = 2
"""Invocations of launch_instances at the same time. EC2's bucket for requests that change something holds about 50 and
gets 5 a second, and a call takes some seconds. A throttled group is launched by the next round."""

FIRST_RECORD_SECONDS: Final = 2
"""Wait before launches are recorded: most CreateFleet calls are answered by then."""

FREQUENT_RECORDS: Final = 20
SECONDS_BETWEEN_FREQUENT_RECORDS: Final = 1
SECONDS_BETWEEN_LATER_RECORDS: Final = 15
MAX_RECORDS: Final = 40
"""Records of one round that are written while its launches run. A history ends at 25,000 events, and each record with
its check is about 20 of them. A launch that still runs after these is throttled or does not answer."""

CHECK_DURING_LAUNCHES_SECONDS: Final = 5
"""A check that runs while launches run starts no call after this time: the next round waits for both branches."""

GATHER_SECONDS: Final = 0.3
"""After a call of the doorbell, `check_registration` waits until the change is stored, and other nodes have called that
are Ready at the same time. It finds later ones in its next passes."""

SETTLING_SECONDS: Final = 1
"""Nodes that got their pods in a check are opened this much later."""

SHORTEST_BOOT_SECONDS: Final = 15
"""No instance boots in less: the longest wait for a check while no node has registered."""

REGISTRATION_CHECK_SECONDS: Final = 5
"""Longest wait for a check after a node has registered, since a call of the doorbell may be lost."""

# Retirement

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

# Disruption

DISRUPTION_TIMEOUT_SECONDS: Final = 3600
"""Timeout of an execution. Replacements have ten minutes; an hour bounds everything else."""

DISRUPTION_TURN_SECONDS: Final = DISRUPTION_TIMEOUT_SECONDS + 60
"""Time after which another execution takes the turn of one that crashed. The sweep takes it earlier."""

SECONDS_BETWEEN_PROPOSALS: Final = 15
"""Time between the two proposals. An action counts only if both contain it: pods that were created meanwhile
prevent it."""

DISRUPTION_LEASE_ATTEMPTS: Final = 10
"""After half a minute without the lease, the proposal is too old."""

REPLACEMENTS_AWAITED_SECONDS: Final = 630
"""Time after which the execution no longer checks registrations: the deadline of replacements
(`joiner.lifecycle.disruption_progress.REPLACEMENT_SECONDS`), and half a minute."""

# Sweep

SWEEP_TIMEOUT_SECONDS: Final = 240
"""Timeout of a sweep. AWS ends Express executions after five minutes."""

NEXT_SWEEP_SECONDS: Final = 1
"""Time until the next sweep reads the cluster while empty nodes wait for others to leave. A retirement of empty nodes
terminates their instances within seconds; then the budgets allow more."""

SWEEP_TURN_RETRY_SECONDS: Final = 2
SWEEP_TURN_ATTEMPTS: Final = 25
"""50 seconds and the time of the calls: less than the minute after which the schedule starts the next sweep."""
