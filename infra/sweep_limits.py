"""Timeouts and waits of the sweep. Times are in seconds."""

from typing import Final

SWEEP_TIMEOUT_SECONDS: Final = 240
"""Timeout of a sweep. AWS ends Express executions after five minutes."""

NEXT_SWEEP_SECONDS: Final = 1
"""Time until the next sweep reads the cluster while empty nodes wait for others to leave. A retirement of empty nodes
terminates their instances within seconds; then the budgets allow more."""

SWEEP_TURN_RETRY_SECONDS: Final = 2
SWEEP_TURN_ATTEMPTS: Final = 25
"""50 seconds and the time of the calls: less than the minute after which the schedule starts the next sweep."""
