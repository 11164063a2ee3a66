"""Attributes of items of the table: read with their types checked, and written in DynamoDB's JSON form."""

from collections.abc import Mapping
from typing import Any

Item = Mapping[str, Mapping[str, Any]]


def text(item: Item, name: str) -> str:
    """Return a string attribute, empty if absent; ValueError if it has another type."""
    return str(_typed(item, name, "S", ""))


def number(item: Item, name: str) -> int:
    """Return a whole number, 0 if absent; ValueError if it has another type."""
    return int(float(_typed(item, name, "N", 0)))


def texts(item: Item, name: str) -> tuple[str, ...]:
    """Return a list or a set of strings, empty if absent; a set is sorted. ValueError if it has another type."""
    if "SS" in item.get(name, {}):
        return tuple(sorted(map(str, item[name]["SS"])))
    return tuple(str(_typed({name: each}, name, "S", "")) for each in _typed(item, name, "L", ()))


def _typed(item: Item, name: str, wanted: str, absent: Any) -> Any:
    if name not in item:
        return absent
    found = item[name]
    if wanted not in found:
        raise ValueError(f"attribute {name} has type {', '.join(sorted(found)) or 'unknown'} instead of {wanted}")
    return found[wanted]


def written(value: str | int | bool | tuple[str, ...] | frozenset[str]) -> dict[str, Any]:
    """Return a value in DynamoDB's JSON form.

    >>> written(3), written(True), written(("a",)), written(frozenset({"a"}))
    ({'N': '3'}, {'BOOL': True}, {'L': [{'S': 'a'}]}, {'SS': ['a']})
    """
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, frozenset):
        return {"SS": sorted(value)}
    return {"L": [{"S": each} for each in value]}
