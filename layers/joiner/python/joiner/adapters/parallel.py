"""Many similar calls at a time, each with its own result: a refusal for one object does not stop the others.

A function has a timeout. `call_each_in_time` begins no call when that time is over, and returns the items that are
left.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Failure = TypeVar("Failure", bound=Exception)

RESERVE: Final = 12.0
"""Seconds of a function's timeout in which nothing more begins: calls that are under way end, and the answer is
written.
"""

WORKERS = 8  # enough to hide the round trip, far below what API priority and fairness grants one user


class TimeLeft:
    """How long a function may still begin something; `seconds` are those until it is stopped."""

    def __init__(self, seconds: Callable[[], float] = lambda: inf) -> None:
        self._seconds = seconds

    @property
    def over(self) -> bool:
        """Must nothing more begin?"""
        return self._seconds() < RESERVE


UNBOUNDED: Final = TimeLeft()


def call_each(
    items: Iterable[Item], call: Callable[[Item], Result], failure: type[Failure], *, workers: int = WORKERS
) -> list[tuple[Item, Result | Failure]]:
    """`call` for each item, several at a time; the result or the `failure` it raised stands beside the item, in the
    items' order.

    >>> call_each([4, 0], lambda n: 8 // n, ZeroDivisionError)[0]
    (4, 2)
    """

    def attempt(item: Item) -> Result | Failure:
        try:
            return call(item)
        except failure as reason:
            return reason

    todo = list(items)
    if len(todo) < 2:
        return [(item, attempt(item)) for item in todo]
    with ThreadPoolExecutor(max_workers=min(workers, len(todo))) as pool:
        return list(zip(todo, pool.map(attempt, todo), strict=True))


def call_all(
    items: Iterable[Item], call: Callable[[Item], Result], failure: type[Failure], *, workers: int = WORKERS
) -> list[Result]:
    """`call` for each item, several at a time; all are tried, then the first `failure` is raised if there was one.

    The results come in no particular order.
    """
    results: list[Result] = []

    def keep(item: Item) -> None:
        results.append(call(item))

    for _, answer in call_each(items, keep, failure, workers=workers):
        if answer is not None:
            raise answer
    return results


def call_each_in_time(
    items: Iterable[Item], call: Callable[[Item], Result], failure: type[Failure], time_left: TimeLeft
) -> tuple[list[tuple[Item, Result | Failure]], list[Item]]:
    """Like `each` for as long as there is time; then also the items whose call did not begin, in the items' order.

    >>> call_each_in_time([4, 2], lambda n: 8 // n, ZeroDivisionError, TimeLeft(lambda: 1.0))
    ([], [4, 2])
    """

    def attempt(item: Item) -> Result | Failure | _Left:
        return _Left() if time_left.over else call(item)

    answers = call_each(items, attempt, failure)
    return [(item, answer) for item, answer in answers if not isinstance(answer, _Left)], [
        item for item, answer in answers if isinstance(answer, _Left)
    ]


class _Left:
    """The call did not begin."""
