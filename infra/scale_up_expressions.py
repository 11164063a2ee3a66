"""Limits, waits and JSONata expressions of the scale-up machine."""

from collections.abc import Mapping
from typing import Any, Final

from infra.states_language import jsonata

MAX_REPLANS: Final = 10
"""Plans of one execution after offerings were short. After that the pods wait for the sweep."""

MAX_LAUNCH_GROUPS: Final = 400
"""Launches of one execution, after which another execution continues. A launch that fails at every attempt writes 33
events, one plan makes up to 300 launches, and a history ends at 25,000 events."""

THROTTLE_BACKOFF_SECONDS: Final = "$ceil($min([$power(2, $throttles), 16]) * (1 + $random()) / 2)"
"""Whole seconds before the next plan after EC2 throttled a launch: 1 to 2, then up to 4, 8 and 16. Half of them is
random, so that clusters of one account do not retry together. The lease lasts longer: a function renews it for its own
timeout and 30 seconds."""

MAX_ROUNDS: Final = 100
"""Rounds of an execution that finds nothing to launch while calls of the doorbell continue. Then another execution
continues, long before the history ends at 25,000 events."""

MAX_REGISTRATION_DELAY_SECONDS: Final = 3
"""Time after it begins to launch in which an execution still plans around offerings that were short. Then another
execution does that, and this one checks the registration of its nodes; otherwise Ready nodes would stay tainted
meanwhile."""

MAY_PLAN_AGAIN: Final = (
    f"$launched = 0 and $turn <= {MAX_ROUNDS} and ($not($watching) or "
    f"$millis() - $launchedAt < {MAX_REGISTRATION_DELAY_SECONDS * 1000})"
)
"""Whether this execution plans once more after a ring. An execution that has launched nodes leaves later pods to
another execution, so that its nodes never wait for planning."""

MAY_SEARCH_AGAIN: Final = "$turn = $launchTurn + 1"
"""Whether an execution that has launched nodes searches for pods once more after a ring. Most rings are of pods
for which it has launched the nodes, and then no other execution is needed."""

OTHERS_MUST_PLAN: Final = (
    "$launched > 0 and $turn > $launchTurn and ($found.podsToPlan + $found.unfinished > 0 or $not($found.complete))"
)
"""Whether such a search found pods that another execution must plan for."""

MUST_REPLAN: Final = (
    f"($again or $claims.postponed > 0) and $not($paused) and $replans < {MAX_REPLANS} "
    f"and $groups < {MAX_LAUNCH_GROUPS}"
)
"""Whether this execution plans once more, because something was not launched."""

NODES_HAVE_WAITED: Final = f"$launched > 0 and $millis() - $launchedAt >= {MAX_REGISTRATION_DELAY_SECONDS * 1000}"
"""Whether launched nodes have waited long enough. The sweep finds the pods that are left."""

EXECUTION_SECONDS: Final = 3600
"""Timeout of an execution. It gives up a node that has not registered in 15 minutes; an hour bounds everything else."""

INITIAL_VARIABLES: Final[Mapping[str, Any]] = {
    "turn": 1,
    "launchTurn": 0,
    "rings": 0,
    "gathering": {"waited": 0, "pods": 0, "idle": 0},
    "replans": 0,
    "throttles": 0,
    "paused": False,
    "watching": False,
    "gather": 0,
    "launchedAt": 0,
    "releasedAt": jsonata("$millis()"),
    "pods": 0,
    "plan": {},
    "registration": {},
    "launched": 0,
    "short": 0,
    "failed": 0,
    "groups": 0,
    "recorded": {},
    "unpublished": [],
}

SUMMARY: Final = """(
  $started := $toMillis($states.context.Execution.StartTime);
  {
    "pods": $pods,
    "nodes": $registration.nodes,
    "pricePerHour": $plan.pricePerHour,
    "lowerBoundPerHour": $plan.lowerBoundPerHour,
    "gap": $plan.gap,
    "launched": $launched,
    "short": $short,
    "failed": $failed,
    "pending": $plan.pendingReasons,
    "podsPlaced": $registration.podsPlaced,
    "placedAsPlanned": $registration.placedAsPlanned,
    "rounds": $turn,
    "paused": $paused,
    "seconds": {
      "untilLaunched": $round(($releasedAt - $started) / 1000, 1),
      "total": $round(($millis() - $started) / 1000, 1)
    }
  }
)"""
