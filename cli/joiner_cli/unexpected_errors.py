"""Reports an unexpected error of a command in one line; the traceback goes to a file.

An unexpected error is an exception that no command handles: a defect, or a broken installation. The exit code is
``UNEXPECTED``, which no command returns otherwise.
"""

import errno
import importlib.metadata
import io
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from joiner_cli.rendering.standard_output import report_unwritten_result

UNEXPECTED: Final = 3
INTERRUPTED: Final = 130
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF})
"""Errors without a file name that mean that stdout cannot be written."""
MOST_SHOWN: Final = 300
"""The maximum length of the error's message in the line; the file has all of it."""


def run_reported(command: Callable[[], None]) -> None:
    """Run the command, and end the process with the exit code of its unexpected error, if it raises one.

    Characters that the encoding of stdout lacks are written as escape sequences.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    code: int | str | None = 0
    try:
        command()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        _print_to_stderr("joiner: interrupted")
        code = INTERRUPTED
    except OSError as error:
        if error.filename is None and error.errno in UNWRITABLE:
            report_unwritten_result(error)
            code = 1
        else:
            _print_to_stderr(describe_unexpected_error(error))
            code = UNEXPECTED
    except Exception as error:
        _print_to_stderr(describe_unexpected_error(error))
        code = UNEXPECTED
    sys.exit(code if _flush_result() else code or 1)


def describe_unexpected_error(error: Exception) -> str:
    """Return one line: the error, and the file with its traceback. Writes that file, which only its owner may read."""
    message = " ".join(str(error).split())
    shown = message if len(message) <= MOST_SHOWN else f"{message[:MOST_SHOWN]} ..."
    line = f"joiner: unexpected error: {type(error).__name__}{f': {shown}' if shown else ''}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="joiner-error-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(_details(error))
    except OSError as unwritable:
        return f"{line}; the details could not be written to {tempfile.gettempdir()}: {unwritable.strerror}"
    return f"{line}; to report it, open an issue and attach the details: {file.name}"


def _details(error: Exception) -> str:
    """Return the versions and the traceback, without values of variables, which may be confidential."""
    version = "of a checkout"
    with suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version("joiner")
    about = f"joiner {version}, Python {platform.python_version()}, {platform.platform()}"
    return f"{about}\n\n{''.join(traceback.format_exception(error))}"


def _flush_result() -> bool:
    """Write what is left of the result; return whether that succeeded. Python would report a failure at exit as an
    ignored exception."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        report_unwritten_result(error)
        return False
    return True


def _print_to_stderr(line: str) -> None:
    if sys.stderr is None:
        return
    with suppress(OSError):
        print("".join(one if one.isprintable() else "?" for one in line), file=sys.stderr, flush=True)
