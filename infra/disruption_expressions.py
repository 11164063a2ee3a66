"""JSONata expressions of the disruption machine, and the first values of its variables."""

from collections.abc import Mapping
from typing import Any, Final

from infra.disruption_limits import REPLACEMENTS_AWAITED_SECONDS
from infra.states_language import jsonata

INITIAL_VARIABLES: Final[Mapping[str, Any]] = {
    "turn": 1,
    "digest": jsonata('[$states.context.Execution.Input.digest, ""][0]'),
    "left": jsonata("[$states.context.Execution.Input.left]"),
    "staleMarks": jsonata("[$states.context.Execution.Input.staleMarks, 0][0]"),
    "holdsTurn": True,
    "due": jsonata("[$states.context.Execution.Input.due, true][0]"),
    "surveyed": False,
    "written": False,
    "found": {"refused": "", "why": ""},
    "proposed": {"actions": 0},
    "marked": {"plan": "", "marked": [], "replacements": 0, "dropped": []},
    "settled": {"retire": [], "waiting": 0, "requested": 0, "undone": [], "finished": 0},
    "requested": 0,
    "undone": [],
    "leaseNumber": 0,
    "tries": 0,
    "ringsNoted": 0,
    "ringsNow": 0,
    "launchedAt": 0,
    "initialized": 0,
    "awaited": 0,
    "paused": False,
    "registration": {"rings": 0, "done": False, "initialized": 0, "registered": 0},
    "gather": 0,
    "unpublished": [],
}
"""Variables that later states read, whichever path leads to them. `initialized` counts the initialized nodes of the
execution when disruptions were last settled, `awaited` those and its claims that waited for their nodes then. `paused`
is whether Joiner was paused when nodes were marked or their replacements launched. `left` names the ended executions
whose disruptions this one settles, besides its own, while it `holdsTurn`. `staleMarks` counts claims with a condition
that no disruption has left."""

LEFT_OVER: Final = "$count($left) > 0 or $staleMarks > 0"
"""Whether there is something to settle that this execution did not begin."""

TO_SETTLE: Final = "$holdsTurn ? $left : []"
"""The ended executions whose disruptions are settled: another execution with the turn may settle them otherwise."""

MAY_AWAIT: Final = (
    "$settled.waiting > 0 and $launchedAt > 0 and $not($registration.done) "
    f"and $millis() - $launchedAt < {REPLACEMENTS_AWAITED_SECONDS * 1000}"
)
"""Whether replacements of this execution may still become initialized."""

MUST_SETTLE: Final = (
    "$registration.done or $registration.initialized > $initialized "
    "or $registration.waiting + $registration.initialized < $awaited "
    f"or $millis() - $launchedAt >= {REPLACEMENTS_AWAITED_SECONDS * 1000}"
)
"""Whether a check of registrations may have changed what becomes of a disruption: a replacement is initialized, or is
awaited no more because it failed, its claim is deleted, or its instance has ended."""

STILL_AWAITED: Final = "$exists($registration.waiting) ? $registration.waiting + $registration.initialized : $awaited"
"""The claims that the last check found waiting or initialized; those of the launch before the first check."""


def awaited_for(seconds: int) -> str:
    """Return the condition that replacements are awaited for so long, and no other execution could disrupt nodes."""
    return f"$holdsTurn and $millis() - $launchedAt >= {seconds * 1000}"


SUMMARY: Final = """{
  "why": $found.why,
  "proposed": $proposed,
  "marked": [$marked.marked],
  "dropped": [$marked.dropped],
  "retired": $requested,
  "waiting": $settled.waiting,
  "undone": [$undone]
}"""
