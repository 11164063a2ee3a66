"""A clock that counts calls of functions: with it, a search goes equally far past its deadline on each machine."""

import sys
from types import FrameType, TracebackType
from typing import Any, Final, Self

CALLS_PER_SECOND: Final = 200_000
"""About what one core does in a search, so that deadlines in tests look like those of users."""


class CallClock:
    """Shows seconds in which only calls of functions take time: those of Python, of numpy and of the kernel alike.

    Real time would let a test fail when the machine does something else. Calls that take longer than others count too
    little here; ``make deadline-test`` measures searches in CPU time.
    """

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self) -> float:
        """Return the seconds since the start of the ``with`` block."""
        return self._calls / CALLS_PER_SECOND

    def __enter__(self) -> Self:
        sys.setprofile(self._count)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.setprofile(None)

    def _count(self, _: FrameType, event: str, __: Any) -> None:
        self._calls += event in ("call", "c_call")
