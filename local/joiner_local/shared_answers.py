"""Answers that many threads need at the same time: the first one asks, the others wait for its answer.

>>> answers = SharedAnswers()
>>> [answers.get("colour", lambda: "red"), answers.get("colour", lambda: "blue")]
['red', 'red']
>>> answers.forget("colour")
>>> answers.get("colour", lambda: "blue")
'blue'
"""

import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any


class SharedAnswers:
    """Answers by a key. A failed question is asked again by the next thread."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[float, Any]] = {}
        self._locks: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, ask: Callable[[], Any], *, fresh: float = math.inf) -> Any:
        """Return an answer that is at most `fresh` seconds old; ask if there is none."""
        with self._locks.setdefault(key, threading.Lock()):
            until, answer = self._known.get(key, (0.0, None))
            if time.monotonic() >= until:
                answer = ask()
                self._known[key] = (time.monotonic() + fresh, answer)
            return answer

    def forget(self, key: Hashable) -> None:
        """Ask again next time."""
        self._known.pop(key, None)
