"""How long to search for a cheaper plan, counted in steps, so that the same state always gives the same plan.

A *step* is a fixed amount of work. A deadline in seconds becomes a number of steps, by what a typical machine does
in that time. The clock itself stops the search only on a much slower machine; then the plan is marked as cut short.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

Clock = Callable[[], float]

STEPS_PER_SECOND: Final = 1000
"""One step is about a millisecond of one core of 2024, with the compiled kernel."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of the search. ``seconds`` is the deadline; without it, the search uses the default number of
    ``steps`` or ends by itself. ``clock`` returns seconds (``time.perf_counter``); without it, only steps count.
    ``seed`` decides between plans of equal score.

    With ``backstop``, the clock only ends a search that outlasts ``seconds``. It does not divide the time between the
    methods, so a machine that is slower, but in time, finds the same plan."""

    seconds: float | None = None
    steps: int | None = None
    seed: int = 0
    clock: Clock | None = None
    backstop: bool = False

    @property
    def allowance(self) -> float:
        """Return the number of steps that may be used; with 0, the search stops after the first full plan."""
        if self.steps is not None:
            return float(self.steps)
        return float(DEFAULT_STEPS) if self.seconds is None else self.seconds * STEPS_PER_SECOND


DEFAULT_STEPS: Final = 250
GRACE_SECONDS: Final = 5.0
"""Methods that place more pods may begin until so many seconds after the deadline."""


class Meter:
    """Counts the steps of one plan.

    ``cut_short`` is true if the clock stopped the search or prevented further orders of realization, or if the search
    used up the steps of a deadline that gives fewer than the default. ``gave_up`` is true if methods that place more
    pods did not begin, because it was too late.
    """

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._started = effort.clock() if effort.clock else 0.0
        self.used = 0.0
        self.cut_short = self.gave_up = False
        self._kept_back = self._behind = 0.0

    @property
    def allowance(self) -> float:
        """Return the total number of steps that may be used."""
        return self._effort.allowance

    def spend(self, steps: float) -> None:
        """Count steps of work."""
        self.used += float(steps)  # Steps are often computed with numpy, whose numbers would spread to the plan.

    def keep_back(self, seconds: float) -> None:
        """Reserve time before the deadline that the search may not use, because realizing the plan takes about as
        long; at most half of the time."""
        self._kept_back = min(float(seconds), (self._effort.seconds or 0.0) / 2)

    def spent(self, share: float = 1.0) -> bool:
        """Return whether this share of the allowance, or of the time until the deadline, is used up."""
        used_up = bool(self.used >= self._effort.allowance * share)
        self.cut_short |= used_up and self._brief
        return used_up or (self._late(1.0, 0.0) if self._effort.backstop else self._late(share, self._kept_back))

    def overdue(self, more: float) -> bool:
        """Return whether the deadline has passed, or will have passed after ``more`` seconds."""
        return self._late(1.0, 0.0 if self._effort.backstop else more)

    def too_late(self) -> bool:
        """Return whether no method that places more pods may begin, GRACE_SECONDS after the deadline."""
        late = self._late(1.0, -GRACE_SECONDS)
        self.gave_up |= late
        return late

    @property
    def _brief(self) -> bool:
        """Return whether the deadline gives fewer steps than a search without a deadline has."""
        effort = self._effort
        return effort.steps is None and effort.seconds is not None and effort.allowance < DEFAULT_STEPS

    def renewed(self) -> "Meter":
        """Return a meter for another search: with all steps again, and the time that is left until the deadline."""
        left, effort = self._left, self._effort
        if left == float("inf"):
            return Meter(effort)
        more = Meter(replace(effort, seconds=max(left, 0.0)))
        more._behind = max(-left, 0.0)
        return more

    @property
    def time_left(self) -> float:
        """Return the seconds until the deadline; infinite without a clock or a deadline, and while a clock that is a
        backstop has not ended the search."""
        left = self._left
        return float("inf") if self._effort.backstop and left > 0 else left

    @property
    def _left(self) -> float:
        deadline = self._effort.seconds
        in_time = self._effort.clock is None or deadline is None
        return float("inf") if in_time or deadline is None else deadline - self._behind - self.seconds

    def _late(self, share: float, kept_back: float) -> bool:
        deadline = self._effort.seconds
        if self._effort.clock is None or deadline is None:
            return False
        late = bool(self.seconds + self._behind > (deadline - kept_back) * share)
        self.cut_short |= late
        return late

    @property
    def share(self) -> float:
        """Return the used share of the allowance in steps, at most 1. It is for decisions where the clock may stop a
        search but must not change it."""
        return min(self.used / max(self._effort.allowance, 1.0), 1.0)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start; 0 without a clock."""
        return self._effort.clock() - self._started if self._effort.clock else 0.0
