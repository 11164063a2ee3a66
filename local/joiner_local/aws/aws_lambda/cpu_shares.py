"""The CPU time of sandboxes by their memory, as Lambda gives it: 1,769 MB have one core, less memory a part of it.

Lambda limits a function by periods of 20 ms, and not while it starts: the init phase has full cores. Here a sandbox is
paused (SIGSTOP) while it is ahead of its share. What it uses between two looks is repaid by a longer pause, so the
share is right in the mean. Source: Lambda developer guide, "Configure Lambda function memory".

It is off by default: tests and demonstrations are faster, and calls on a whole core show the work of a function. Knob:
`POST /_local/cpu-shares {"on": true}`; it applies from the next invocation of each sandbox.
"""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner_local.knob_requests import read_flag

MB_OF_A_CORE: Final = 1769
PERIOD: Final = 0.02  # seconds
LOOKS: Final = 0.002  # seconds between two looks at a sandbox
CPU_CLOCK_OF_A_PROCESS: Final = 2  # Linux: clock_getcpuclockid(3) makes the id of the clock of a process by this rule


@dataclass(slots=True)
class CpuShares:
    """Whether sandboxes have the CPU of their memory."""

    on: bool = False

    def turn(self, asked: Mapping[str, Any]) -> dict[str, bool]:
        """Knob: turn the shares on or off."""
        self.on = read_flag(asked, "on", default=self.on)
        return {"on": self.on}


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process and its threads so far; None if it has ended."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | CPU_CLOCK_OF_A_PROCESS)
    return None


class CpuBudget:
    """The CPU time that a process may use: its share of the time, at most that of one period at once.

    >>> budget = CpuBudget(cores=0.5, now=100.0, used=7.0)
    >>> budget.is_ahead(now=100.01, used=7.01)  # it computed all the time
    True
    >>> budget.is_ahead(now=100.02, used=7.01)
    False
    """

    def __init__(self, cores: float, *, now: float, used: float) -> None:
        self._cores = cores
        self._now = now
        self._used = used
        self._left = 0.0

    def is_ahead(self, *, now: float, used: float) -> bool:
        """Return whether the process has used more than its share, at this time with so many CPU seconds."""
        left = self._left + (now - self._now) * self._cores - (used - self._used)
        self._left = min(left, PERIOD * self._cores)
        self._now, self._used = now, used
        return self._left < -1e-9


class CpuLimit:
    """Limits the process group of one sandbox during one invocation."""

    def __init__(self, pid: int, memory_mb: int) -> None:
        self._pid = pid
        self._budget = CpuBudget(memory_mb / MB_OF_A_CORE, now=time.monotonic(), used=cpu_seconds(pid) or 0.0)
        self._paused = False

    def look(self) -> None:
        """Pause the process if it is ahead of its share, and continue it if it is not any more."""
        if (used := cpu_seconds(self._pid)) is None:
            return
        ahead = self._budget.is_ahead(now=time.monotonic(), used=used)
        if ahead != self._paused:
            self._signal(signal.SIGSTOP if ahead else signal.SIGCONT)
            self._paused = ahead

    def end(self) -> None:
        """Continue the process."""
        if self._paused:
            self._signal(signal.SIGCONT)
            self._paused = False

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, number)
