"""Calls that run at the same time, each of them once: a call with the arguments of an earlier one has its answer.

A call that failed is sent again. An ``AnswerMemory`` keeps answers for the next invocations of a sandbox.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
WORKERS: Final = 10
"""Calls at a time: as many as a client has connections, and far below EC2's bucket of 100 Describe calls."""


REMEMBERED_FOR: Final = timedelta(minutes=1)
"""As long as Karpenter caches what EC2 and SSM answer about a node class."""


@dataclass(slots=True)
class AnswerMemory:
    """Answers of earlier invocations, and when each was given. They are given again for ``REMEMBERED_FOR``, and no
    longer; nothing else ends them, so it is for answers that may be a minute old.

    >>> noon, memory = datetime(2026, 1, 1, 12), AnswerMemory()
    >>> memory.put("a", 1, noon), memory.get("a", noon + REMEMBERED_FOR), memory.get("a", noon + 2 * REMEMBERED_FOR)
    (None, (1,), ())
    """

    _answers: dict[str, tuple[datetime, Any]] = field(default_factory=dict)

    def put(self, key: str, answer: object, now: datetime) -> None:
        """Remember an answer, and forget those that are too old."""
        self._answers = {name: kept for name, kept in self._answers.items() if now - kept[0] <= REMEMBERED_FOR}
        self._answers[key] = (now, answer)

    def get(self, key: str, now: datetime) -> tuple[Any, ...]:
        """Return the answer, as the only item; empty if there is none that is recent."""
        at, answer = self._answers.get(key, (None, None))
        return (answer,) if at is not None and timedelta() <= now - at <= REMEMBERED_FOR else ()


class SharedCalls:
    """A context in which calls run in threads; at its end all of them have ended. Calls that are started with
    ``start_or_remember`` are answered from the memory, if there is one and it has a recent answer.
    """

    def __init__(self, memory: AnswerMemory, now: datetime, *, asks_anew: bool = False) -> None:
        self._pool = ThreadPoolExecutor(max_workers=WORKERS)
        self._known: dict[str, Future[Any]] = {}
        self._lock = Lock()
        self._memory = memory
        self._now = now
        self._asks_anew = asks_anew

    def __enter__(self) -> "SharedCalls":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, call: Callable[..., Result], *arguments: object) -> "Future[Result]":
        """Start a call, unless the same one was started before; its result is awaited with `result()`.

        Arguments are equal if they look alike. The calls must not start others and wait for them.

        >>> with SharedCalls(AnswerMemory(), datetime(2026, 1, 1)) as calls:
        ...     first, same = calls.start(sorted, [2, 1]), calls.start(sorted, [2, 1])
        ...     first is same, first.result()
        (True, [1, 2])
        """
        key = f"{call.__qualname__}{arguments!r}"
        with self._lock:
            known = self._known.get(key)
            if known is None or (known.done() and known.exception() is not None):
                known = self._known[key] = self._pool.submit(call, *arguments)
            return known

    def start_or_remember(
        self, call: Callable[..., Result], *arguments: object, complete: Callable[[Result], bool] = bool
    ) -> "Future[Result]":
        """Start a call whose answer may be a minute old, or return the answer that an earlier invocation has had. With
        ``asks_anew`` the call is sent, and its answer remembered.

        ``complete`` tells whether an answer has all that was asked for. Others are not remembered: a user may be
        creating what is missing.
        """
        key = f"{call.__qualname__}{arguments!r}"
        if not self._asks_anew and (remembered := self._memory.get(key, self._now)):
            answered: Future[Result] = Future()
            answered.set_result(remembered[0])
            return answered
        started = self.start(call, *arguments)
        started.add_done_callback(lambda done: self._remember(key, done, complete))
        return started

    def _remember(self, key: str, done: "Future[Any]", complete: Callable[[Any], bool]) -> None:
        if not done.cancelled() and done.exception() is None and complete(done.result()):
            with self._lock:
                self._memory.put(key, done.result(), self._now)
