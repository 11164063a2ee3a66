"""Calls that run at the same time, each of them once: a call with the arguments of an earlier one has its answer.

A call that failed is sent again.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
WORKERS: Final = 10
"""Calls at a time: as many as a client has connections, and far below EC2's bucket of 100 Describe calls."""


class SharedCalls:
    """A context in which calls run in threads; at its end all of them have ended."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=WORKERS)
        self._known: dict[str, Future[Any]] = {}
        self._lock = Lock()

    def __enter__(self) -> "SharedCalls":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, call: Callable[..., Result], *arguments: object) -> "Future[Result]":
        """Start a call, unless the same one was started before; its result is awaited with `result()`.

        Arguments are equal if they look alike. The calls must not start others and wait for them.

        >>> with SharedCalls() as calls:
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
