"""One run of one state by one thread of an execution: what its expressions see, and its transition.

"Passing data between states with variables" and "Accessing execution data from the Context object" in the Step
Functions Developer Guide.
"""

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass

from joiner_local.aws.step_functions.execution_history import EventTrack
from joiner_local.aws.step_functions.jsonata_expressions import Json, QueryEvaluationError, evaluate
from joiner_local.aws.step_functions.machine_definition import StateDefinition
from joiner_local.aws.step_functions.task_tokens import PromiseScope, StateFailure


def timestamp(at: dt.datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_text(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(slots=True)
class ExecutionThread:
    """One thread of an execution: its variables, its event track, its promise scope, and the Map item that it
    processes.
    """

    track: EventTrack
    scope: PromiseScope
    variables: dict[str, Json]
    item: Mapping[str, Json] | None = None


@dataclass(slots=True)
class StateRun:
    """`execution`: the part of the context object that is the same for the whole execution; `token`: the token of a
    task that waits for a callback.
    """

    execution: Mapping[str, Json]
    state: StateDefinition
    given: Json
    thread: ExecutionThread
    at: dt.datetime
    entered_at_event: int = 0
    retries: int = 0
    token: str | None = None

    def context(self) -> dict[str, Json]:
        """Return the context object ("Accessing execution data from the Context object")."""
        state = {"Name": self.state.name, "EnteredTime": timestamp(self.at), "RetryCount": self.retries}
        context: dict[str, Json] = {**self.execution, "State": state}
        if self.token is not None:
            context["Task"] = {"Token": self.token}
        if self.thread.item is not None:
            context["Map"] = {"Item": self.thread.item}
        return context

    def evaluate(self, template: Json, location: str, **more: Json) -> Json:
        return evaluate(
            template,
            self.thread.variables | {"states": {"input": self.given, "context": self.context()} | more},
            location,
        )

    def leave(
        self, fields: Mapping[str, Json], result: Json, error_output: Json = None
    ) -> tuple[Json, dict[str, Json]]:
        """Return the output (by default the result) and assign variables. All expressions see the variables from
        before.
        """
        more = {"result": result} if error_output is None else {"errorOutput": error_output}
        if "Output" not in fields and "Assign" not in fields:
            return result, {}
        output = self.evaluate(fields["Output"], "Output", **more) if "Output" in fields else result
        return output, self.evaluate(fields.get("Assign", {}), "Assign", **more)

    def evaluation_failed(self, error: QueryEvaluationError) -> StateFailure:
        details = {
            "error": "States.QueryEvaluationError",
            "cause": error.cause,
            "location": error.location,
            "state": self.state.name,
        }
        self.thread.track.add("EvaluationFailed", **details)
        return StateFailure("States.QueryEvaluationError", error.cause)

    def of_the_language(self, failure: StateFailure) -> StateFailure:
        """Return a failure of the machine itself, with its location."""
        if failure.cause.startswith("An error occurred while executing the state"):
            return failure
        where = (
            f"An error occurred while executing the state '{self.state.name}' (entered at the event id "
            f"#{self.entered_at_event})."
        )
        return StateFailure(failure.error, f"{where} {failure.cause}")
