"""The events of an execution, as GetExecutionHistory and CloudWatch Logs show them.

Each thread of an execution (its own, and one for each Map iteration and Parallel branch) has an `EventTrack`: the chain
of previousEventId.
"""

import datetime as dt
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joiner_local.aws.step_functions.task_tokens import Halted

Sink = Callable[["HistoryEvent"], None]

MOST_EVENTS = 25_000  # a Standard execution that goes on longer fails

NOT_TRUNCATED = {"truncated": False}


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    id: int
    previous: int
    type: str
    at: dt.datetime
    details: Mapping[str, Any]

    def to_api(self) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "timestamp": self.at,
            "type": self.type,
            "id": self.id,
            "previousEventId": self.previous,
        }
        if self.details:
            answer[_details_name(self.type)] = dict(self.details)
        return answer


def _details_name(event: str) -> str:
    """
    >>> _details_name("TaskStateEntered"), _details_name("TaskSucceeded"), _details_name("MapStateStarted")
    ('stateEnteredEventDetails', 'taskSucceededEventDetails', 'mapStateStartedEventDetails')
    """
    for end in ("StateEntered", "StateExited"):
        if event.endswith(end):
            event = end
    return f"{event[:1].lower()}{event[1:]}EventDetails"


class TooManyEvents(Exception):
    pass


class ExecutionHistory:
    def __init__(self, sink: Sink) -> None:
        self._events: list[HistoryEvent] = []
        self._lock = threading.Lock()
        self._sink = sink
        self._closed = False

    def close(self) -> None:
        """Close the history at the end of the execution; a thread that adds an event later stops."""
        with self._lock:
            self._closed = True

    def add(self, previous: int, event: str, details: Mapping[str, Any]) -> int:
        with self._lock:
            if self._closed:
                raise Halted
            if len(self._events) >= MOST_EVENTS - 1 and not event.startswith("Execution"):
                raise TooManyEvents
            added = HistoryEvent(len(self._events) + 1, previous, event, dt.datetime.now(dt.UTC), details)
            self._events.append(added)
        self._sink(added)
        return added.id

    def events(self) -> list[HistoryEvent]:
        with self._lock:
            return list(self._events)


class EventTrack:
    """One chain of events."""

    def __init__(self, history: ExecutionHistory, last: int = 0) -> None:
        self.history = history
        self.last = last

    def add(self, event: str, **details: Any) -> None:
        self.last = self.history.add(self.last, event, details)

    def branch(self) -> "EventTrack":
        return EventTrack(self.history, self.last)
