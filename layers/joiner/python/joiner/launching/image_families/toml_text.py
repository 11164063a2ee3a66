"""Write TOML: the standard library only reads it.

Only what ``tomllib`` returns is written. Source: TOML 1.0 (https://toml.io/en/v1.0.0).

>>> print(write_toml({"settings": {"kubernetes": {"max-pods": 20, "node-labels": {"team": "a"}}}}), end="")
[settings.kubernetes]
max-pods = 20
<BLANKLINE>
[settings.kubernetes.node-labels]
team = "a"
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(document: Mapping[str, Any]) -> str:
    """Return a document as text; ``tomllib.loads`` returns the document again."""
    return "\n\n".join("\n".join(lines) for lines in _tables(document, ())) + "\n"


def _tables(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the lines of a table and of each table below it."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if not isinstance(value, Mapping)]
    below = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    if lines or (path and not below):
        yield [f"[{'.'.join(map(_key, path))}]", *lines] if path else lines
    for name, value in below.items():
        yield from _tables(value, (*path, name))


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return f"{{{', '.join(f'{_key(name)} = {_value(one)}' for name, one in value.items())}}}"
        case Sequence():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return repr(value)


def _text(value: str) -> str:
    """Return a basic string: JSON has the same escapes, but TOML also wants one for the character DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
