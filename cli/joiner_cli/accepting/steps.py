"""The steps of an acceptance run: what each needs, how long it may take, and how they are run so that the last one always happens.

A step returns a sentence that says what it showed, or raises `Failed`. A step whose prerequisite did not pass is skipped, with the reason.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Outcome = Literal["shown", "failed", "skipped"]


class Failed(Exception):
    """A step did not show what it should; the message says what was found, `remedy` what to do."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `shows` is what a success proves; `seconds` bounds it."""

    name: str
    shows: str
    seconds: int
    needs: tuple[str, ...] = ()


STEPS: Final = (
    Step("deployment", "the stack is complete, and Joiner is not paused", 30),
    Step("cluster-access", "your credentials reach the API server, and the node class is ready", 60, ("deployment",)),
    Step("launch-template", "the launch role may create a launch template with its tags (dry run)", 60, ("cluster-access",)),
    Step(
        "run-instances", "it may run the image, in the subnet, with tags and the instance profile's role (dry run)", 60, ("cluster-access",)
    ),
    Step("create-fleet", "it may create the fleet (dry run)", 60, ("cluster-access",)),
    Step("token", "a deployed function reaches the API server with its own token, and is let in", 240, ("deployment",)),
    Step("ring", "the API server's webhook reaches the doorbell, and the ledger counts the ring", 90, ("cluster-access",)),
    Step("node-up", "a pending pod gets a node, which joins and runs it", 600, ("run-instances", "create-fleet", "token", "ring")),
    Step("node-down", "the node is drained and its instance is terminated", 420, ("node-up",)),
)
CLEANUP: Final = Step("cleanup", "nothing of this run is left", 420)
"""Runs whatever happened before it, also after an interruption."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one step."""

    step: str
    outcome: Outcome
    said: str
    remedy: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "outcome": self.outcome, "said": self.said, "remedy": self.remedy, "seconds": round(self.seconds, 1)}


def run_steps(
    actions: Mapping[str, Callable[[Step], str]],
    *,
    told: Callable[[Result], None],
    explained: Callable[[Exception], Failed],
    steps: Sequence[Step] = (*STEPS, CLEANUP),
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[Result], bool]:
    """The results, and whether the run was interrupted. `explained` gives the remedy of an error that a step did not expect."""
    results: dict[str, Result] = {}
    interrupted = False
    for step in steps:
        missing = [name for name in step.needs if results[name].outcome != "shown"]
        began = clock()
        if interrupted and step is not CLEANUP:
            result = Result(step.name, "skipped", "the run was interrupted")
        elif missing:
            result = Result(step.name, "skipped", f"needs {', '.join(missing)}")
        else:
            try:
                result = _run(step, actions[step.name], explained, lambda began=began: clock() - began)  # type: ignore[misc]
            except KeyboardInterrupt:
                interrupted = True
                result = Result(step.name, "failed", "interrupted", seconds=clock() - began)
        results[step.name] = result
        told(result)
    return list(results.values()), interrupted


def _run(step: Step, action: Callable[[Step], str], explained: Callable[[Exception], Failed], took: Callable[[], float]) -> Result:
    try:
        return Result(step.name, "shown", action(step), seconds=took())
    except Failed as failure:
        return Result(step.name, "failed", str(failure), failure.remedy, took())
    except Exception as error:
        found = explained(error)
        return Result(step.name, "failed", str(found), found.remedy, took())


def wait_for(
    look: Callable[[], str],
    step: Step,
    *,
    missing: Callable[[], str],
    remedy: str,
    every: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """The first sentence that `look` returns; after the step's time `Failed` with what is `missing`."""
    deadline = clock() + step.seconds
    while True:
        if said := look():
            return said
        if clock() > deadline:
            raise Failed(f"not within {step.seconds} s: {missing()}", remedy)
        time.sleep(every)
