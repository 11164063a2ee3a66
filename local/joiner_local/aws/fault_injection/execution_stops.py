"""Stop executions in a chosen state, as StopExecution does, but at an exact moment."""

import threading
from dataclasses import dataclass, field
from typing import Any, Final

from joiner_local.aws.step_functions.execution_history import HistoryEvent
from joiner_local.aws.step_functions.machine_execution import MachineExecution
from joiner_local.knob_requests import check_fields, read_text, read_whole

ENTERED: Final = "entered"  # the state has done nothing
WORKING: Final = "working"  # its task has started, and continues without the execution
LEFT: Final = "left"  # the state is complete
MOMENTS: Final = (ENTERED, WORKING, LEFT)


@dataclass(slots=True)
class ExecutionStop:
    machine: str
    state: str
    when: str
    nth: int = 1
    met: int = 0


@dataclass(slots=True)
class ExecutionStops:
    """One stop at a time; it is removed when it has happened."""

    stopped: list[str] = field(default_factory=list)
    _stop: ExecutionStop | None = None
    _inside: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Knob: set the stop. Answers the ARN that the last one stopped."""
        check_fields(asked, {"machine", "state", "when", "nth"}, "faults/stop")
        if asked and asked["when"] not in MOMENTS:
            raise ValueError(f"an execution is stopped when a state is {' or '.join(MOMENTS)}, not {asked['when']}")
        stop = (
            ExecutionStop(
                read_text(asked, "machine"), read_text(asked, "state"), asked["when"], read_whole(asked, "nth", 1)
            )
            if asked
            else None
        )
        with self._lock:
            stopped, self.stopped = self.stopped, []
            self._stop = stop
            self._inside.clear()
        return {"stopped": stopped}

    def watch(self, execution: MachineExecution, event: HistoryEvent) -> None:
        """Called with every event of every execution, by the thread that made it."""
        if self._stop is not None and self._strikes(execution, event):
            execution.stop("Fault", "stopped on purpose")

    def _strikes(self, execution: MachineExecution, event: HistoryEvent) -> bool:
        arn = execution.identity.arn
        with self._lock:
            stop = self._stop
            if stop is None or execution.identity.machine_name != stop.machine:
                return False
            moment = _moment(event.type)
            if moment == ENTERED:
                self._inside[arn] = event.details["name"]
            state = self._inside.get(arn) if moment == WORKING else event.details.get("name")
            if moment != stop.when or state != stop.state:
                return False
            stop.met += 1
            if stop.met != stop.nth:
                return False
            self._stop = None
            self.stopped.append(arn)
            return True


def _moment(event: str) -> str:
    """
    >>> _moment("TaskStateEntered"), _moment("TaskStarted"), _moment("PassStateExited"), _moment("TaskSucceeded")
    ('entered', 'working', 'left', '')
    """
    if event in ("TaskStarted", "LambdaFunctionStarted"):
        return WORKING
    return ENTERED if event.endswith("StateEntered") else LEFT if event.endswith("StateExited") else ""
