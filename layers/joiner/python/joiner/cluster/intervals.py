"""Sets of integers as intervals: the values of ``Gt`` and ``Lt``, closed under every combination.

Intervals of a set ascend and never touch, so equal sets have equal intervals.
"""

from collections.abc import Callable
from typing import Final

Interval = tuple[int | None, int | None]
"""Both ends are included; None means no end."""

ALL_INTEGERS: Final[tuple[Interval, ...]] = ((None, None),)


def combine_intervals(
    pair: tuple[tuple[Interval, ...], tuple[Interval, ...]], rule: Callable[[bool, bool], bool]
) -> tuple[Interval, ...]:
    """Return the intervals of all integers for which ``rule`` is true.

    Its arguments are whether the integer is in the first set and in the second set.

    >>> combine_intervals((((0, 9),), ((5, None),)), lambda one, two: one and two)
    ((5, 9),)
    """
    if not pair[0] and not pair[1] and not rule(False, False):
        return ()
    starts = {low for intervals in pair for low, _ in intervals if low is not None}
    starts |= {high + 1 for intervals in pair for _, high in intervals if high is not None}
    edges: list[int | None] = [None, *sorted(starts)]
    found: list[Interval] = []
    for index, low in enumerate(edges):
        following = edges[index + 1] if index + 1 < len(edges) else None
        high = None if following is None else following - 1
        probe = low if low is not None else high if high is not None else 0
        inside = [
            any((a is None or a <= probe) and (b is None or probe <= b) for a, b in intervals) for intervals in pair
        ]
        if rule(inside[0], inside[1]):
            if found and low is not None and found[-1][1] == low - 1:
                found[-1] = (found[-1][0], high)
            else:
                found.append((low, high))
    return tuple(found)
