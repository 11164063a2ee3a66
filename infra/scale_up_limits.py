"""Timeout and limits of the scale-up machine. Times are in seconds."""

from typing import Final

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
