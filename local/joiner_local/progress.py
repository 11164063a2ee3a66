"""Long steps, told while they run: what a program said last, every few seconds.

Only the standard library, any Python from 3.11 on: `local/setup.py` uses this before there is a virtual environment.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

TOLD_EVERY = 5.0  # seconds between two lines

Say = Callable[[str], None]
Told = Callable[[Sequence[str]], str]


class StepFailed(RuntimeError):
    """A program ended with an error; the message ends with what it said last."""


def last_line(said: Sequence[str]) -> str:
    """
    >>> last_line(["Collecting moto", "  Downloading moto-5.2.5"])
    'Downloading moto-5.2.5'
    """
    return said[-1].strip()[:110] if said else "at work"


def run(
    what: str,
    command: Sequence[object],
    say: Say,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    told: Told = last_line,
) -> None:
    """Run a program to its end. `told` makes of all it has said the rest of a line that begins with what and for how long."""
    began = last = time.monotonic()
    said: list[str] = []
    words = [str(word) for word in command]
    process = subprocess.Popen(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for line in _lines(process):
            if line.strip():
                said.append(line)
            if time.monotonic() - last >= TOLD_EVERY:
                last = time.monotonic()
                say(f"{what}: {last - began:4.0f} s  {told(said)}")
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.wait():
        raise StepFailed(f"{what} failed ({' '.join(words)}: exit code {process.returncode}):\n" + "\n".join(said[-25:]))


def _lines(process: "subprocess.Popen[bytes]") -> Iterator[str]:
    """Its lines as they come, and an empty one after each second of silence: linkers say nothing for long."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector, process.stdout as stream:
        selector.register(stream, selectors.EVENT_READ)
        rest = b""
        while True:
            if not selector.select(timeout=1.0):
                yield ""
                continue
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    yield rest.decode(errors="replace")
