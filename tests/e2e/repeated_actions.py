"""An action that a thread repeats while a test does something else."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def steadily(act: Callable[[], None], *, seconds: float) -> Iterator[list[float]]:
    """Run `act` every `seconds` in a thread during the block; the list has the time of each call."""
    acts: list[float] = []
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            act()
            acts.append(time.monotonic())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield acts
    finally:
        ended.set()
        thread.join(10)
