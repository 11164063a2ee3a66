"""JSONata expressions of the disruption machine, and the first values of its variables."""

from collections.abc import Mapping
from typing import Any, Final

from infra.disruption_limits import REPLACEMENTS_AWAITED_SECONDS
from infra.states_language import jsonata

INITIAL_VARIABLES: Final[Mapping[str, Any]] = {
    "turn": 1,
    "digest": jsonata('[$states.context.Execution.Input.digest, ""][0]'),
    "leftOver": jsonata("[$states.context.Execution.Input.unfinished, 0][0]"),
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
    "registration": {"rings": 0, "done": False, "initialized": 0, "registered": 0},
    "gather": 0,
    "unpublished": [],
}
"""Variables that later states read, whichever path leads to them. `initialized` counts the initialized nodes of the
execution when disruptions were last settled."""

MAY_AWAIT: Final = (
    "$settled.waiting > 0 and $launchedAt > 0 and $not($registration.done) "
    f"and $millis() - $launchedAt < {REPLACEMENTS_AWAITED_SECONDS * 1000}"
)
"""Whether replacements of this execution may still become initialized."""

MUST_SETTLE: Final = (
    "$registration.done or $registration.initialized > $initialized "
    f"or $millis() - $launchedAt >= {REPLACEMENTS_AWAITED_SECONDS * 1000}"
)
"""Whether a check of registrations may have changed what becomes of a disruption."""

SUMMARY: Final = """{
  "why": $found.why,
  "proposed": $proposed,
  "marked": [$marked.marked],
  "dropped": [$marked.dropped],
  "retired": $requested,
  "waiting": $settled.waiting,
  "undone": [$undone]
}"""
