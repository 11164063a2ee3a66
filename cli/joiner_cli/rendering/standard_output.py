"""Results, on stdout: one that could not be written out is not done, whatever was found."""

import errno
import os
import sys

import typer


def print_result(result: str) -> None:
    """Exit with code 1, and why, if not all of it can be written; a reader who has seen enough and hung up is left to the command."""
    try:
        print(result, flush=True)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # what is left of it would be tried once more at the end
        print(f"joiner: the result could not be written: {error.strerror}", file=sys.stderr)
        raise typer.Exit(1) from None
