"""Prints results on stdout; an incomplete result is a failure of the command."""

import errno
import os
import sys
from contextlib import suppress


def print_result(result: str) -> None:
    """Print the result. End the command with exit code 1 if it cannot be written completely.

    A closed pipe raises ``BrokenPipeError``.
    """
    if sys.stdout is None:  # stdout is closed; print would write nothing
        report_unwritten_result(OSError(errno.EBADF, "stdout is closed"))
        sys.exit(1)
    try:
        print(result, flush=True)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        report_unwritten_result(error)
        sys.exit(1)


def report_unwritten_result(error: OSError) -> None:
    """Report that the result could not be written, in one line on stderr.

    What stdout still buffers is discarded: Python would try to write it once more at exit.
    """
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if sys.stderr is not None and error.errno != errno.EPIPE:
        with suppress(OSError):
            print(f"joiner: the result could not be written: {error.strerror}", file=sys.stderr)
