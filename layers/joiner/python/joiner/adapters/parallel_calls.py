"""Run many similar calls at a time, each with its own result: an error for one object does not stop the others.

The errors that a caller handles for one object are results, for calls of APIs `call_failures.CALL_FAILURES`. Others are
raised after all objects were tried.

A function has a timeout. `call_each_in_time` starts no call after that time, and returns the items that are left.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Final, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")
Failure = TypeVar("Failure", bound=Exception)
Failures = type[Failure] | tuple[type[Failure], ...]
"""The error, or the errors, that a caller handles for each item."""

RESERVE: Final = 12.0
"""Seconds of a function's timeout in which no call starts: running calls end, and the answer is written."""

WORKERS = 8  # enough to cover the round trips, far below the share of one user in API priority and fairness


class TimeLeft:
    """The time in which a function may still start work; `seconds` are those until it is stopped."""

    def __init__(self, seconds: Callable[[], float] = lambda: inf) -> None:
        self._seconds = seconds

    @property
    def over(self) -> bool:
        """Return whether no more work may start."""
        return self._seconds() < RESERVE

    def at_most(self, seconds: float, clock: Callable[[], float]) -> "TimeLeft":
        """Return a time that is also over after `seconds`, counted from now.

        >>> times = iter([100.0, 101.0, 102.0])
        >>> limited = UNBOUNDED.at_most(1.5, lambda: next(times))
        >>> limited.over, limited.over
        (False, True)
        """
        end = clock() + seconds
        return TimeLeft(lambda: min(self._seconds(), end - clock() + RESERVE))


UNBOUNDED: Final = TimeLeft()


class _Left:
    """The call did not start."""


@dataclass(frozen=True, slots=True)
class _Unexpected:
    """The call raised an error that its caller does not handle for one item."""

    reason: Exception


def call_each(
    items: Iterable[Item], call: Callable[[Item], Result], failure: Failures[Failure], *, workers: int = WORKERS
) -> list[tuple[Item, Result | Failure]]:
    """Call `call` for each item, several at a time; return each item with the result or the raised `failure`, in order.

    All are tried, whatever a call raises. Then the first error that is no `failure` is raised, if any.

    >>> call_each([4, 0], lambda n: 8 // n, ZeroDivisionError)[0]
    (4, 2)
    """

    def attempt(item: Item) -> Result | Failure | _Unexpected:
        try:
            return call(item)
        except failure as reason:
            return reason
        except Exception as reason:
            return _Unexpected(reason)

    todo = list(items)
    if len(todo) < 2:
        answers = [attempt(item) for item in todo]
    else:
        with ThreadPoolExecutor(max_workers=min(workers, len(todo))) as pool:
            answers = list(pool.map(attempt, todo))
    for answer in answers:
        if isinstance(answer, _Unexpected):
            raise answer.reason
    return list(zip(todo, cast(list[Result | Failure], answers), strict=True))  # mypy narrows no type variables


def call_all(
    items: Iterable[Item], call: Callable[[Item], Result], failure: Failures[Failure], *, workers: int = WORKERS
) -> list[Result]:
    """Call `call` for each item, several at a time; return the results in order. All are tried, then the first
    `failure` is raised, if any.
    """
    return results_of(call_each(items, call, failure, workers=workers), failure)


def call_each_in_time(
    items: Iterable[Item],
    call: Callable[[Item], Result],
    failure: Failures[Failure],
    time_left: TimeLeft,
    *,
    workers: int = WORKERS,
) -> tuple[list[tuple[Item, Result | Failure]], list[Item]]:
    """Call like `call_each` until the time is over; return also the items whose call did not start, in the items'
    order.

    >>> call_each_in_time([4, 2], lambda n: 8 // n, ZeroDivisionError, TimeLeft(lambda: 1.0))
    ([], [4, 2])
    """

    def attempt(item: Item) -> Result | Failure | _Left:
        return _Left() if time_left.over else call(item)

    answers = call_each(items, attempt, failure, workers=workers)
    return [(item, answer) for item, answer in answers if not isinstance(answer, _Left)], [
        item for item, answer in answers if isinstance(answer, _Left)
    ]


def results_of(answers: Iterable[tuple[Item, Result | Failure]], failure: Failures[Failure]) -> list[Result]:
    """Return the results of calls that were all tried; raise the first `failure` among them.

    >>> results_of([("a", 2), ("b", 4)], ZeroDivisionError)
    [2, 4]
    """
    results: list[Result] = []
    for _, answer in answers:
        if isinstance(answer, failure):
            raise answer
        results.append(cast(Result, answer))  # mypy narrows no union of two type variables
    return results
