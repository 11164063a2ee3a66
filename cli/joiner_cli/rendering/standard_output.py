"""Prints results on stdout; an incomplete result is a failure of the command."""

import errno
import os
import sys

import typer


def print_result(result: str) -> None:
    """Print the result. End the command with exit code 1 if it cannot be written completely.

    A closed pipe raises ``BrokenPipeError``.
    """
    try:
        print(result, flush=True)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would flush the rest once more at exit
        print(f"joiner: the result could not be written: {error.strerror}", file=sys.stderr)
        raise typer.Exit(1) from None
