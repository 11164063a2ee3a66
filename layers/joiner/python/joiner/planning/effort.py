"""How hard to look for a cheaper plan, and when to stop: counted in steps, so that the same state gives the same plan
every time.

A *step* is a fixed amount of work. A deadline in seconds becomes a number of steps by what an ordinary machine does in
that time, so the clock itself decides only on a machine that is much slower; then the plan says that it was cut short.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Clock = Callable[[], float]

STEPS_PER_SECOND: Final = 1000
"""What a step is: about a millisecond of one core of 2024, with the compiled kernel."""


@dataclass(frozen=True, slots=True)
class Effort:
    """``seconds`` is the deadline; without one the default number of ``steps`` is used up or the search ends by itself.
    ``clock`` tells seconds (``time.perf_counter``); without it, steps alone count. ``seed`` decides between plans that
    look alike.
    """

    seconds: float | None = None
    steps: int | None = None
    seed: int = 0
    clock: Clock | None = None

    @property
    def allowance(self) -> float:
        """Steps that may be used: 0 means the first full plan and nothing more."""
        if self.steps is not None:
            return float(self.steps)
        return DEFAULT_STEPS if self.seconds is None else self.seconds * STEPS_PER_SECOND


DEFAULT_STEPS: Final = 250.0


class Meter:
    """Counts the steps of one plan. ``cut_short`` once the clock, not the count, has stopped the search, or has kept
    other orders of carrying out from being tried.
    """

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._started = effort.clock() if effort.clock else 0.0
        self.used = 0.0
        self.cut_short = False
        self._kept_back = 0.0

    @property
    def allowance(self) -> float:
        """Steps that may be used in all."""
        return self._effort.allowance

    def spend(self, steps: float) -> None:
        self.used += steps

    def keep_back(self, seconds: float) -> None:
        """Time before the deadline that the search may not use, because carrying out takes about as much; at most half
        of it.
        """
        self._kept_back = min(seconds, (self._effort.seconds or 0.0) / 2)

    def spent(self, share: float = 1.0) -> bool:
        """Whether this share of the allowance is used up, or of the time until the deadline."""
        return self.used >= self._effort.allowance * share or self._late(share, self._kept_back)

    def overdue(self, more: float) -> bool:
        """Whether the deadline is over, or would be so many seconds later."""
        return self._late(1.0, more)

    def _late(self, share: float, kept_back: float) -> bool:
        deadline = self._effort.seconds
        late = self._effort.clock is not None and deadline is not None and self.seconds > (deadline - kept_back) * share
        self.cut_short |= late
        return late

    @property
    def share(self) -> float:
        """How much of the allowance is used, 1 at most: by steps, for what the clock says may end a search and not
        change it.
        """
        return min(self.used / max(self._effort.allowance, 1.0), 1.0)

    @property
    def seconds(self) -> float:
        """Since the beginning; 0 without a clock."""
        return self._effort.clock() - self._started if self._effort.clock else 0.0
