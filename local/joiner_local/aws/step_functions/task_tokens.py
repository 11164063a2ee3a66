"""What a state waits for: promises, and the task tokens with which a caller settles them.

A promise is settled once; a later caller gets an error. Stopping an execution settles all promises of its threads.
"""

import base64
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final


class Halted(Exception):
    """The execution was stopped or timed out, or a sibling branch failed: this thread must end."""


class StateFailure(Exception):
    """An error by its name (``States.Timeout``, ``DynamoDb.ConditionalCheckFailedException``) as Retry and Catch
    match it.
    """

    def __init__(self, error: str, cause: str = "") -> None:
        super().__init__(f"{error}: {cause}")
        self.error = error
        self.cause = cause


class Promise:
    """One outcome, set by the first caller."""

    __slots__ = ("_lock", "_outcome", "_settled", "_then")

    def __init__(self) -> None:
        self._settled: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self._outcome: Any = None
        self._then: list[Callable[[Promise], None]] = []

    def settle(self, outcome: Any) -> bool:
        """Set the outcome. Returns True if it counts. An exception as outcome is raised in the waiting thread."""
        with self._lock:
            if self._settled.is_set():
                return False
            self._outcome = outcome
            self._settled.set()
        for callback in self._then:
            callback(self)
        return True

    def then(self, callback: "Callable[[Promise], None]") -> None:
        """Call a function when the promise is settled, at once if it is."""
        with self._lock:
            if not self._settled.is_set():
                self._then.append(callback)
                return
        callback(self)

    def wait(self, seconds: float | None) -> bool:
        return self._settled.wait(seconds)

    @property
    def failed(self) -> bool:
        return isinstance(self._outcome, BaseException)

    def result(self) -> Any:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


class PromiseScope:
    """Work that can be halted as a whole: an execution, or one branch with everything below it."""

    def __init__(self, parent: "PromiseScope | None" = None) -> None:
        self._lock = threading.Lock()
        self._waiting: set[Promise] = set()
        self._children: set[PromiseScope] = set()
        self._parent = parent
        self.halted = False

    def child(self) -> "PromiseScope":
        scope = PromiseScope(self)
        with self._lock:
            self._children.add(scope)
            scope.halted = self.halted
        return scope

    def leave(self) -> None:
        if self._parent is not None:
            with self._parent._lock:
                self._parent._children.discard(self)

    def halt(self) -> None:
        with self._lock:
            self.halted = True
            waiting, children = list(self._waiting), list(self._children)
        for promise in waiting:
            promise.settle(Halted())
        for scope in children:
            scope.halt()

    def check(self) -> None:
        if self.halted:
            raise Halted

    def wait(self, promise: Promise, seconds: float | None = None) -> bool:
        """Wait until the promise is settled (True) or the seconds have passed (False). Raises `Halted` if the scope
        ends first.
        """
        with self._lock:
            if self.halted:
                raise Halted
            self._waiting.add(promise)
        try:
            settled = promise.wait(seconds)
        finally:
            with self._lock:
                self._waiting.discard(promise)
        self.check()
        return settled

    def sleep(self, seconds: float) -> None:
        self.wait(Promise(), max(0.0, seconds))


def in_background(work: Callable[[], Any], name: str) -> Promise:
    """Run a function in a thread of its own; the promise gets what it returns or raises."""
    promise = Promise()

    def run() -> None:
        try:
            promise.settle(work())
        except BaseException as error:
            promise.settle(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return promise


class UnknownToken(Exception):
    """No task has this token: InvalidToken."""


class TaskGone(Exception):
    """The task of this token has ended: TaskTimedOut."""


@dataclass(slots=True)
class _Task:
    promise: Promise = field(default_factory=Promise)
    heartbeat: threading.Event = field(default_factory=threading.Event)


class TaskTokens:
    """Tokens of tasks that wait for a callback. A token stays known after its task has ended, so that a late caller
    gets the reason.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._ended: set[str] = set()
        self._machines: dict[str, str] = {}
        self._lock = threading.Lock()

    def issue(self, machine: str = "") -> tuple[str, Promise, threading.Event]:
        token = base64.b64encode((uuid.uuid4().hex * 4).encode()).decode()
        task = _Task()
        with self._lock:
            self._tasks[token] = task
            self._machines[token] = machine
        return token, task.promise, task.heartbeat

    def machine_of(self, token: str) -> str:
        """Return the ARN of the state machine whose task waits or waited for this token; empty for an unknown token."""
        return self._machines.get(token, "")

    def close(self, token: str) -> None:
        with self._lock:
            if self._tasks.pop(token, None) is not None:
                self._ended.add(token)

    def settle(self, token: str, outcome: Any) -> None:
        if not self._find(token).promise.settle(outcome):
            raise TaskGone
        self.close(token)

    def beat(self, token: str) -> None:
        self._find(token).heartbeat.set()

    def _find(self, token: str) -> _Task:
        with self._lock:
            task = self._tasks.get(token)
            ended = token in self._ended
        if task is None:
            raise TaskGone if ended else UnknownToken
        return task
