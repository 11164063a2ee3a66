"""How errors of the command line are worded and end.

Typer passes on what its validator says, in the validator's words. The exit code is 1, because 2 means that pods stay
pending.
"""

import re
from typing import Any, Final

import typer

WORDS: Final = (
    (r"Value error, ", ""),
    (r"Input should be a valid (\w+).*", r"give a \1"),
    (r"Input should be greater than or equal to (.*)", r"give a number of at least \1"),
    (r"Input should be less than or equal to (.*)", r"give a number of at most \1"),
    (r"Input should be ", "give "),
)
"""What the validator says, and what it means."""


def explain_in_plain_words(message: str) -> str:
    """Return a message of the validator in plain words.

    >>> explain_in_plain_words("Value error, 'xml' is not one of 'table', 'json'.")
    "'xml' is not one of 'table', 'json'."
    >>> explain_in_plain_words("Input should be a valid number, unable to parse string as a number")
    'give a number'
    """
    for pattern, meaning in WORDS:
        message = re.sub(f"^{pattern}", meaning, message)
    return message


def word_usage_errors() -> None:
    """Give errors of the command line these words and exit code 1. Typer does not export their class."""
    bad: Any = typer.BadParameter
    bad.__bases__[0].exit_code = 1
    written = bad.format_message

    def format_message(error: Any) -> str:
        error.message = explain_in_plain_words(error.message)
        return str(written(error))

    bad.format_message = format_message
