"""Waits, timeouts and limits of the disruption machine. Times are in seconds."""

from typing import Final

DISRUPTION_TIMEOUT_SECONDS: Final = 3600
"""Timeout of an execution. Replacements have ten minutes; an hour bounds everything else."""

DISRUPTION_TURN_SECONDS: Final = DISRUPTION_TIMEOUT_SECONDS + 60
"""Time after which another execution takes the turn of one that crashed. The sweep takes it earlier."""

SECONDS_BETWEEN_PROPOSALS: Final = 15
"""Time between the two proposals. An action counts only if both contain it: pods that were created meanwhile
prevent it."""

DISRUPTION_LEASE_ATTEMPTS: Final = 10
"""After half a minute without the lease, the proposal is too old."""

REPLACEMENTS_AWAITED_ALONE_SECONDS: Final = 120
"""Time for which an execution keeps the turn while it awaits replacements. Nodes boot faster: the next wave is planned
when the pods of this one have moved. A replacement that does not come must not keep other nodes from their turn."""

REPLACEMENTS_AWAITED_SECONDS: Final = 630
"""Time after which the execution no longer checks registrations: the deadline of replacements
(`joiner.lifecycle.disruption_progress.REPLACEMENT_SECONDS`), and half a minute."""
