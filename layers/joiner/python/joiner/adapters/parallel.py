"""Many similar calls at a time, each with its own ending: a refusal of one object never stops the others."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Failure = TypeVar("Failure", bound=Exception)

WORKERS = 8  # enough to hide the round trip, far below what API priority and fairness grants one user


def each(
    items: Iterable[Item], call: Callable[[Item], Result], failure: type[Failure], *, workers: int = WORKERS
) -> list[tuple[Item, Result | Failure]]:
    """`call` for each item, several at a time; the result or the `failure` it raised stands beside the item, in the items' order.

    >>> each([4, 0], lambda n: 8 // n, ZeroDivisionError)[0]
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


def every(items: Iterable[Item], call: Callable[[Item], Result], failure: type[Failure], *, workers: int = WORKERS) -> list[Result]:
    """`call` for each item, several at a time; all are tried, then the first `failure` is raised if there was one.

    The results come in no particular order.
    """
    results: list[Result] = []

    def keep(item: Item) -> None:
        results.append(call(item))

    for _, answer in each(items, keep, failure, workers=workers):
        if answer is not None:
            raise answer
    return results
