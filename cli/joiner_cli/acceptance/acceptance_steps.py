"""The steps of an acceptance run: prerequisites, time limits, and the order. The cleanup step always runs.

A step returns a sentence with its result, or raises `AcceptanceFailed`.
A step whose prerequisite did not pass is skipped, with the reason.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

StepOutcome = Literal["shown", "failed", "skipped"]


class AcceptanceFailed(Exception):
    """A step failed; the message says what was found, `remedy` what to do."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class AcceptanceStep:
    """One step. `shows` is what a success proves; `seconds` is its time limit; `needs` names the steps that must pass
    first.
    """

    name: str
    shows: str
    seconds: int
    needs: tuple[str, ...] = ()


STEPS: Final = (
    AcceptanceStep("deployment", "the stack is complete, and Joiner is not paused", 30),
    AcceptanceStep(
        "cluster-access", "your credentials reach the API server, and the node class is ready", 60, ("deployment",)
    ),
    AcceptanceStep(
        "launch-template",
        "the launch role may create a launch template with its tags (dry run)",
        60,
        ("cluster-access",),
    ),
    AcceptanceStep(
        "run-instances",
        "it may run the image in the subnet, with tags and the instance profile's role (dry run)",
        60,
        ("cluster-access",),
    ),
    AcceptanceStep("create-fleet", "it may create the fleet (dry run)", 60, ("cluster-access",)),
    AcceptanceStep(
        "token", "a deployed function reaches the API server, which accepts its token", 240, ("deployment",)
    ),
    AcceptanceStep(
        "ring", "the API server's webhook reaches the doorbell, and the ledger counts the ring", 90, ("cluster-access",)
    ),
    AcceptanceStep(
        "node-up",
        "a pending pod gets a node, which joins the cluster and runs the pod",
        600,
        ("run-instances", "create-fleet", "token", "ring"),
    ),
    AcceptanceStep("node-down", "the node is drained and its instance is terminated", 420, ("node-up",)),
)
CLEANUP: Final = AcceptanceStep("cleanup", "nothing of this run is left", 420)
"""Runs after failures and interruptions, too."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step; ``message`` is one sentence."""

    step: str
    outcome: StepOutcome
    message: str
    remedy: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "step": self.step,
            "outcome": self.outcome,
            "message": self.message,
            "remedy": self.remedy,
            "seconds": round(self.seconds, 1),
        }


def run_steps(
    actions: Mapping[str, Callable[[AcceptanceStep], str]],
    *,
    report: Callable[[StepResult], None],
    explained: Callable[[Exception], AcceptanceFailed],
    steps: Sequence[AcceptanceStep] = (*STEPS, CLEANUP),
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[StepResult], bool]:
    """Run the steps in order. Return the results, and whether the run was interrupted.

    `report` receives each result; `explained` turns an unexpected exception into a failure with a remedy.
    """
    results: dict[str, StepResult] = {}
    interrupted = False
    for step in steps:
        missing = [name for name in step.needs if results[name].outcome != "shown"]
        began = clock()
        if interrupted and step is not CLEANUP:
            result = StepResult(step.name, "skipped", "the run was interrupted")
        elif missing:
            result = StepResult(step.name, "skipped", f"needs {', '.join(missing)}")
        else:
            try:
                result = _run_step(step, actions[step.name], explained, began, clock)
            except KeyboardInterrupt:
                interrupted = True
                result = StepResult(step.name, "failed", "interrupted", seconds=clock() - began)
        results[step.name] = result
        report(result)
    return list(results.values()), interrupted


def _run_step(
    step: AcceptanceStep,
    action: Callable[[AcceptanceStep], str],
    explained: Callable[[Exception], AcceptanceFailed],
    began: float,
    clock: Callable[[], float],
) -> StepResult:
    try:
        return StepResult(step.name, "shown", action(step), seconds=clock() - began)
    except AcceptanceFailed as failure:
        return StepResult(step.name, "failed", str(failure), failure.remedy, clock() - began)
    except Exception as error:
        found = explained(error)
        return StepResult(step.name, "failed", str(found), found.remedy, clock() - began)


def wait_for(
    check: Callable[[], str],
    step: AcceptanceStep,
    *,
    missing: Callable[[], str],
    remedy: str,
    every: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Call ``check`` until it returns a sentence; after the step's limit, raise `AcceptanceFailed` with `missing()`."""
    deadline = clock() + step.seconds
    while True:
        if message := check():
            return message
        if clock() > deadline:
            raise AcceptanceFailed(f"not within {step.seconds} s: {missing()}", remedy)
        time.sleep(every)
