"""Reads the TOML of a user. Every text has a result: its values, which can be written as TOML again, or a refusal.

``tomllib`` raises more than its own error: a ValueError for an integer of 5,000 digits, a RecursionError for lists in
lists. It also returns what TOML does not have: integers of more than 64 bits (https://toml.io/en/v1.0.0#integer).

>>> read_toml("[settings]\\na = 0x1_0000_0000_0000_0000")
Traceback (most recent call last):
joiner.launching.image_families.node_settings.UserDataRefused: Bottlerocket reads TOML, and this is none: an integer...
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from joiner.launching.image_families.node_settings import UserDataRefused
from joiner.launching.image_families.toml_mistakes import explain_toml_error

DEEPEST: Final = 100
"""Levels of nesting; settings of Bottlerocket have fewer than ten."""

INTEGERS: Final = range(-(2**63), 2**63)
TOO_LARGE: Final = "an integer has more than 64 bits: correct it, or put it in quotes"
TOO_DEEP: Final = "it is nested too deeply: look for brackets or dots by mistake"
DIGITS: Final = re.compile(r"[0-9][0-9_]{999,}")
"""An integer that Python may refuse to convert."""
DOTTED: Final = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
"""A key with more dots than levels: ``tomllib`` needs seconds for some thousands."""

OPENED: Final = re.compile(r"(?:[\[{]\s*){100}")
"""Brackets that open more levels: whether Python's stack is enough for them depends on the caller."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the document; raises UserDataRefused if it is not valid TOML."""
    if DOTTED.search(text):
        raise _refused(TOO_DEEP)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refused(TOO_DEEP if OPENED.search(text) else explain_toml_error(error, text)) from error
    except RecursionError as error:
        raise _refused(TOO_DEEP) from error
    except ValueError as error:
        long = DIGITS.search(text)
        line = f"in line {text.count(chr(10), 0, long.start()) + 1}, " if long else ""
        raise _refused(f"{line}{TOO_LARGE}") from error
    except Exception as error:  # one class's text must not end the reading of the others
        raise _refused("tomllib cannot read it") from error
    _check_values(document)
    return document


def _check_values(document: Mapping[str, Any]) -> None:
    """Raise UserDataRefused for values that are too large, and for nesting that is too deep to be written again."""
    level: Iterable[Any] = [document]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _list_inner(value)]
        if any(type(value) is int and value not in INTEGERS for value in level):
            raise _refused(TOO_LARGE)
        if not level:
            return
    raise _refused(TOO_DEEP)


def _list_inner(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _refused(why: str) -> UserDataRefused:
    return UserDataRefused("InvalidUserData", f"Bottlerocket reads TOML, and this is none: {why}")
