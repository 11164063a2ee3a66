"""Read the fields of a knob's request, and answer for a knob: an error names the field, its value, and what to write
instead.

>>> read_number({"seconds": 1.5}, "seconds", 9.0), read_number({}, "seconds", 9.0)
(1.5, 9.0)
>>> read_number({"seconds": -1}, "seconds", 9.0)
Traceback (most recent call last):
ValueError: seconds is -1: give a number of at least zero
"""

import json
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

Knob = Callable[[dict[str, Any]], dict[str, Any]]

log = logging.getLogger(__name__)


class MissingField(KeyError):
    """A request without a field that a knob needs."""


def check_fields(asked: Mapping[str, Any], known: Collection[str], knob: str) -> None:
    """Raise ValueError if a request has fields that the knob does not know.

    >>> check_fields({"second": 1}, {"seconds", "held"}, "boot")
    Traceback (most recent call last):
    ValueError: boot: second is not known; there are held, seconds
    """
    if unknown := asked.keys() - set(known):
        there = f"there are {', '.join(sorted(known))}" if len(known) > 1 else f"there is {min(known)}"
        raise ValueError(f"{knob}: {', '.join(sorted(unknown))} is not known; {there}")


def read_number(asked: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """Return a number of at least zero; raises ValueError for anything else, MissingField without the field and a
    default. A number in quotes is accepted.
    """
    value = asked[name] if default is None else asked.get(name, default)
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} is {json.dumps(value)}: give a number of at least zero")
    return number


def read_whole(asked: Mapping[str, Any], name: str, default: int | None = None, *, least: int = 0) -> int:
    """Return a whole number of at least ``least``; raises as ``read_number``."""
    value = asked[name] if default is None else asked.get(name, default)
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {json.dumps(value)}: give a whole number of at least {least}")
    return value


def read_flag(asked: Mapping[str, Any], name: str, *, default: bool | None = None) -> bool:
    """Return true or false; raises as ``read_number``."""
    value = asked[name] if default is None else asked.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {json.dumps(value)}: give true or false")
    return value


def read_text(asked: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text; raises as ``read_number``."""
    value = asked[name] if default is None else asked.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {json.dumps(value)}: give a text")
    return value


def read_texts(asked: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts; raises as ``read_number``."""
    value = asked[name]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} is {json.dumps(value)}: give a list of texts")
    return value


def read_object(asked: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a JSON object; raises as ``read_number``."""
    value = asked[name]
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {json.dumps(value)}: give a JSON object")
    return value


class _Fields(dict[str, Any]):
    """A JSON object of a request, of which a knob may need more fields."""

    def __missing__(self, name: str) -> Any:
        raise MissingField(name)


class _NotedFields(_Fields):
    """A request that notes which of its fields a knob reads; all of them, if the knob asks for their names."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        super().__init__(asked)
        self.unread = set(asked)

    def __getitem__(self, name: str) -> Any:
        self.unread.discard(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.unread.discard(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.unread.discard(name)
        return super().get(name, default)

    def keys(self) -> Any:
        self.unread.clear()
        return super().keys()


def answer_knob(knob: Knob, body: bytes) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the answer of a knob for this JSON object; what it refuses is 400 with the reason. Any
    other error is a defect of the knob: it is logged, and the status is 500.

    >>> answer_knob(lambda asked: {"was": asked["pace"]}, b'{"pace": 1}'), answer_knob(lambda asked: asked["pace"], b"")
    ((200, {'was': 1}), (400, {'error': 'pace is missing: give it in the JSON object'}))
    >>> answer_knob(lambda asked: {"set": asked.get("pace")}, b'{"pase": 1}')[1]["error"][:29]
    'this knob knows no field pase'
    >>> answer_knob(dict, b"[1]")
    (400, {'error': "a knob takes a JSON object, such as '{}'"})
    """
    try:
        return 200, _turn(knob, _read_object(body))
    except MissingField as error:
        return 400, {"error": f"{error.args[0]} is missing: give it in the JSON object"}
    except ValueError as error:
        return 400, {"error": str(error)}
    except Exception as error:
        log.exception("a knob failed")
        return 500, {"error": f"{type(error).__name__}: {error}"}


def _read_object(body: bytes) -> _NotedFields:
    try:
        asked = json.loads(body or b"{}", object_hook=_Fields)
    except ValueError as error:
        raise ValueError(f"the request is no JSON: {error}") from error
    if not isinstance(asked, dict):
        raise ValueError("a knob takes a JSON object, such as '{}'")
    return _NotedFields(asked)


def _turn(knob: Knob, asked: _NotedFields) -> dict[str, Any]:
    answer = knob(asked)
    if asked.unread:
        unknown = ", ".join(sorted(asked.unread))
        raise ValueError(f"this knob knows no field {unknown}; the other fields, if there are any, took effect")
    return answer
