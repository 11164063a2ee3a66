"""How long a node class, or an offering, launches nothing after instances that ended right after their launch.

An offering waits from the first failure on: others are launched instead. A class waits from the second one in a row on:
a single failure may be a chance, and every pool of the class would wait.

The ledger records it, which every function imports: this module imports no pools.
"""

from typing import Final

BACK_OFF_STEPS: Final = (60, 120, 240, 480, 900, 1800)
"""Seconds without a launch after the first failure, the second in a row and so on."""

BACK_OFF_RESET_AFTER: Final = 3600
"""Seconds after a wait without another failure, after which the next failure is the first again."""


def extend_back_off(tries: int, until: int, now: int) -> tuple[int, int]:
    """Return the number of failures in a row with one more at ``now``, and until when nothing is launched.

    ``tries`` and ``until`` are the values before. Instances that were launched together fail together: failures within
    a wait count as one.

    >>> extend_back_off(0, 0, now=1000), extend_back_off(1, 1060, now=1030)
    ((1, 1060), (1, 1060))
    >>> extend_back_off(1, 1060, now=1090), extend_back_off(3, 1060, now=9000)
    ((2, 1210), (1, 9060))
    """
    if now < until:
        return tries, until
    after = 1 if now - until > BACK_OFF_RESET_AFTER else tries + 1
    return after, now + BACK_OFF_STEPS[min(after, len(BACK_OFF_STEPS)) - 1]


def extend_class_back_off(tries: int, until: int, now: int, *, launched: int) -> tuple[int, int]:
    """Return the same for a node class, which launches again at once after the first failure.

    ``until`` is then ``now``. ``launched`` is the launch of the instance that ended at ``now``. Instances that were
    launched before the last failure, or in its wait, failed for the same cause and do not count.

    >>> extend_class_back_off(0, 0, now=1000, launched=990), extend_class_back_off(1, 1000, now=1002, launched=990)
    ((1, 1000), (1, 1000))
    >>> extend_class_back_off(1, 1000, now=1020, launched=1003)
    (2, 1080)
    >>> extend_class_back_off(2, 1080, now=1100, launched=1090)
    (3, 1220)
    """
    if now < until or launched < until:
        return tries, until
    after = 1 if now - until > BACK_OFF_RESET_AFTER else tries + 1
    return after, now + (BACK_OFF_STEPS[min(after - 1, len(BACK_OFF_STEPS)) - 1] if after > 1 else 0)
