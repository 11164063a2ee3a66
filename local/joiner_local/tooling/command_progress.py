"""Run long commands and print their last output every few seconds.

Only the standard library of Python 3.11: `local/setup.py` uses this before there is a virtual environment.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

REPORTED_EVERY = 5.0  # seconds between two lines

Say = Callable[[str], None]
Describe = Callable[[Sequence[str]], str]


class StepFailed(RuntimeError):
    """A program ended with an error; the message ends with its last output."""


def last_line(output: Sequence[str]) -> str:
    """Return the start of the last line, without spaces around it.

    >>> last_line(["Collecting moto", "  Downloading moto-5.2.5"])
    'Downloading moto-5.2.5'
    """
    return output[-1].strip()[:110] if output else "at work"


def run(
    what: str,
    command: Sequence[object],
    say: Say,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    describe: Describe = last_line,
) -> None:
    """Run a program to its end. `describe` maps all output so far to the rest of a progress line."""
    began = last = time.monotonic()
    output: list[str] = []
    words = [str(word) for word in command]
    process = subprocess.Popen(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        for line in _lines(process):
            if line.strip():
                output.append(line)
            if time.monotonic() - last >= REPORTED_EVERY:
                last = time.monotonic()
                say(f"{what}: {last - began:4.0f} s  {describe(output)}")
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.wait():
        raise StepFailed(
            f"{what} failed ({' '.join(words)}: exit code {process.returncode}):\n" + "\n".join(output[-25:])
        )


def _lines(process: "subprocess.Popen[bytes]") -> Iterator[str]:
    """Yield the program's lines, and an empty one after each second without output: linkers print nothing for long."""
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
