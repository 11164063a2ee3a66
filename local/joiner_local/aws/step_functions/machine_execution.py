"""One execution of a machine, in a thread of its own, from ExecutionStarted to its end.

The first end counts: the last state, an uncaught failure, StopExecution, or a timeout. Then the history is closed and
no further state is entered. A Lambda function or an API call that is running is not interrupted, as on AWS.
"""

import datetime as dt
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from joiner_local.aws.step_functions.execution_history import (
    NOT_TRUNCATED,
    EventTrack,
    ExecutionHistory,
    Sink,
    TooManyEvents,
)
from joiner_local.aws.step_functions.machine_definition import MachineDefinition
from joiner_local.aws.step_functions.state_interpreter import ExecutionIdentity, StateInterpreter
from joiner_local.aws.step_functions.state_runs import ExecutionThread, to_text
from joiner_local.aws.step_functions.task_calls import Services
from joiner_local.aws.step_functions.task_tokens import (
    Halted,
    Promise,
    PromiseScope,
    StateFailure,
    TaskTokens,
)

log = logging.getLogger(__name__)

LONGEST_EXPRESS = 300.0  # seconds


class MachineExecution:
    """An execution: its input, its history, its status and its output."""

    def __init__(
        self,
        identity: ExecutionIdentity,
        machine: MachineDefinition,
        input_text: str,
        *,
        services: Services,
        tokens: TaskTokens,
        sink: Sink,
        pace: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.identity = identity
        self.machine = machine
        self.input_text = input_text
        self.started = dt.datetime.now(dt.UTC)
        self.status = "RUNNING"
        self.stopped: dt.datetime | None = None
        self.output: str | None = None
        self.error: str | None = None
        self.cause: str | None = None
        self.history = ExecutionHistory(sink)
        self.ended = Promise()
        self._services = services
        self._tokens = tokens
        self._pace = pace
        self._scope = PromiseScope()
        self._root = EventTrack(self.history)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Write ExecutionStarted, and run the machine in a thread."""
        details = {"input": self.input_text, "inputDetails": NOT_TRUNCATED, "roleArn": self.identity.role}
        self._root.add("ExecutionStarted", **details)
        limit = self.machine.timeout
        if self.identity.express:
            limit = min(limit or LONGEST_EXPRESS, LONGEST_EXPRESS)
        if limit is not None:
            self._timer = threading.Timer(limit, self.time_out)
            self._timer.daemon = True
            self._timer.start()
        threading.Thread(target=self._run, name=self.identity.name, daemon=True).start()

    def stop(self, error: str | None, cause: str | None) -> None:
        """End the execution as ABORTED; no effect after its end."""
        details = {key: value for key, value in (("error", error), ("cause", cause)) if value is not None}
        self._end("ABORTED", "ExecutionAborted", details)

    def time_out(self) -> None:
        """End the execution as TIMED_OUT; no effect after its end."""
        self._end("TIMED_OUT", "ExecutionTimedOut", {"error": "States.Timeout"})

    def _run(self) -> None:
        interpreter = StateInterpreter(
            self.identity, self.started, json.loads(self.input_text), self._services, self._tokens, self._pace
        )
        try:
            output = to_text(
                interpreter.run(self.machine, interpreter.input, ExecutionThread(self._root, self._scope, {}))
            )
            self._end("SUCCEEDED", "ExecutionSucceeded", {"output": output, "outputDetails": NOT_TRUNCATED})
        except StateFailure as failure:
            self._end("FAILED", "ExecutionFailed", {"error": failure.error, "cause": failure.cause})
        except TooManyEvents:
            cause = "The execution reached the maximum number of history events (25000)."
            self._end("FAILED", "ExecutionFailed", {"error": "States.Runtime", "cause": cause})
        except Halted:
            pass
        except Exception as error:
            log.exception("execution %s", self.identity.arn)
            self._end(
                "FAILED", "ExecutionFailed", {"error": "States.Runtime", "cause": f"{type(error).__name__}: {error}"}
            )

    def _end(self, status: str, event: str, details: Mapping[str, Any]) -> None:
        with self._lock:
            if self.status != "RUNNING":
                return
            self._root.add(event, **details)
            self.history.close()
            self.stopped = dt.datetime.now(dt.UTC)
            self.output, self.error, self.cause = details.get("output"), details.get("error"), details.get("cause")
            self.status = status
        self._scope.halt()
        if self._timer is not None:
            self._timer.cancel()
        self.ended.settle(status)
