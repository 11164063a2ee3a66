"""Things that happen later: one thread, one list of times, instead of a sleeping thread for each instance that boots."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Act = Callable[[], None]


class Agenda:
    """Acts at their times, one after the other, in the order of their times. An act that fails is logged and forgotten."""

    def __init__(self, name: str) -> None:
        self._due: list[tuple[float, int, Act]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def after(self, seconds: float, act: Act) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), act))
            self._changed.notify()

    def _next(self) -> Act:
        with self._changed:
            while True:
                if not self._due:
                    self._changed.wait()
                elif (left := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    return heapq.heappop(self._due)[2]

    def _run(self) -> None:
        while True:
            act = self._next()
            try:
                act()
            except Exception:
                log.exception("an act of the agenda")
