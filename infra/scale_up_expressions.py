"""JSONata expressions of the scale-up machine, and the first values of its variables."""

from collections.abc import Mapping
from typing import Any, Final

from infra.scale_up_limits import (
    MAX_LAUNCH_GROUPS,
    MAX_REGISTRATION_DELAY_SECONDS,
    MAX_REPLANS,
    MAX_SCALE_UP_ROUNDS,
    MAX_THROTTLE_BACKOFF_SECONDS,
)
from infra.states_language import jsonata

THROTTLE_BACKOFF: Final = f"$ceil($min([$power(2, $throttles), {MAX_THROTTLE_BACKOFF_SECONDS}]) * (1 + $random()) / 2)"
"""Whole seconds before the next plan after EC2 throttled a launch, or the API server did not answer a write: 1 to 2,
then up to 4, 8 and 16. Half of them is random, so that clusters of one account do not retry together. The lease lasts
longer: a function renews it for its own timeout and 30 seconds."""

MAY_PLAN_AGAIN: Final = (
    f"$launched = 0 and $turn <= {MAX_SCALE_UP_ROUNDS} and ($not($watching) or "
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
