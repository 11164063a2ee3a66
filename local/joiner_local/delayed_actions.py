"""Run actions later: one thread with one queue of times, instead of a sleeping thread for each instance that boots."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Action = Callable[[], None]


class DelayedActions:
    """Run actions in the order of their times, one after the other. A failing action is logged and dropped."""

    def __init__(self, name: str) -> None:
        self._due: list[tuple[float, int, Action]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def after(self, seconds: float, action: Action) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), action))
            self._changed.notify()

    def _next(self) -> Action:
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
            action = self._next()
            try:
                action()
            except Exception:
                log.exception("a delayed action failed")
