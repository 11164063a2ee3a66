"""A Task from TaskScheduled to its end: the call, a callback if it waits for one, its timeouts and its events.

"Handling errors in Step Functions workflows": a task that takes too long fails with States.Timeout; what it called
continues.
"""

import datetime as dt
import threading
from dataclasses import dataclass, field
from typing import Any

from joiner_local.aws.local_aws import REGION
from joiner_local.aws.step_functions.execution_history import NOT_TRUNCATED, EventTrack
from joiner_local.aws.step_functions.jsonata_expressions import Json
from joiner_local.aws.step_functions.payload_sizes import check_result
from joiner_local.aws.step_functions.state_runs import to_text
from joiner_local.aws.step_functions.task_calls import TaskCall
from joiner_local.aws.step_functions.task_resources import TaskResource
from joiner_local.aws.step_functions.task_tokens import Halted, Promise, PromiseScope, StateFailure, in_background

TIMEOUTS = frozenset({"States.Timeout", "States.HeartbeatTimeout"})


@dataclass(slots=True)
class RunningTask:
    """A Task from TaskScheduled to its end, with its events."""

    track: EventTrack
    scope: PromiseScope
    resource: TaskResource
    arguments: Json
    timeout: float | None = None
    heartbeat: float | None = None
    begun: dt.datetime = field(init=False, default_factory=lambda: dt.datetime.now(dt.UTC))

    def perform(self, call: TaskCall, callback: tuple[Promise, threading.Event] | None) -> Json:
        self._scheduled()
        try:
            answer = self._outcome(in_background(call.run, self.resource.action))
            if callback is not None:
                self.submitted(answer)
                answer = self._callback(*callback)
        except (Halted, StateFailure) as end:
            call.abandon()
            if isinstance(end, StateFailure):
                self._failed(end)
            raise
        text = to_text(answer)
        try:
            check_result(text, call.resource.type_in_history)
        except StateFailure as limit:
            self._failed(limit)
            raise
        self._add("Succeeded", output=text, outputDetails=NOT_TRUNCATED)
        return answer

    def submitted(self, answer: Json) -> None:
        self._add("Submitted", output=to_text(answer), outputDetails=NOT_TRUNCATED)

    def _remaining(self) -> float | None:
        if self.timeout is None:
            return None
        return max(0.0, self.timeout - (dt.datetime.now(dt.UTC) - self.begun).total_seconds())

    def _outcome(self, promise: Promise) -> Json:
        # The first result counts: an accepted callback is final, a callback after the timeout gets an error.
        if not self.scope.wait(promise, self._remaining()):
            promise.settle(StateFailure("States.Timeout"))
        return promise.result()

    def _callback(self, promise: Promise, beaten: threading.Event) -> Json:
        """Wait for the callback; a heartbeat extends the time by HeartbeatSeconds."""
        if self.heartbeat is None:
            return self._outcome(promise)
        while True:
            remaining = self._remaining()
            beaten.clear()
            if self.scope.wait(promise, self.heartbeat if remaining is None else min(remaining, self.heartbeat)):
                return promise.result()
            if self._remaining() == 0:
                promise.settle(StateFailure("States.Timeout"))
            elif not beaten.is_set():
                promise.settle(StateFailure("States.HeartbeatTimeout"))
            else:
                continue
            return promise.result()

    def _scheduled(self) -> None:
        seconds: dict[str, int] = {"timeoutInSeconds": int(self.timeout)} if self.timeout is not None else {}
        if self.heartbeat is not None:
            seconds["heartbeatInSeconds"] = int(self.heartbeat)
        text = to_text(self.arguments)
        if self.resource.kind == "function":
            self._add("Scheduled", resource=self.resource.arn, input=text, inputDetails=NOT_TRUNCATED, **seconds)
        else:
            self._add("Scheduled", region=REGION, parameters=text, **seconds)
        self._add("Started")

    def _failed(self, failure: StateFailure) -> None:
        cause = {"cause": failure.cause} if failure.cause else {}
        self._add("TimedOut" if failure.error in TIMEOUTS else "Failed", error=failure.error, **cause)

    def _add(self, event: str, **details: Any) -> None:
        if self.resource.kind == "function":
            self.track.add(f"LambdaFunction{event}", **details)
            return
        about = {"resourceType": self.resource.type_in_history, "resource": self.resource.name_in_history}
        self.track.add(f"Task{event}", **about, **details)
