"""Read items of the ledger's table: an unreadable item is left out and reported, and does not stop the others.

An item is unreadable if an attribute has another type than it was written with, if its JSON is broken, or if this
version of Joiner does not know its schema number.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from joiner.adapters.item_attributes import Item, number

Record = TypeVar("Record")

SCHEMA_NUMBER: Final = "schemaNumber"
"""The attribute with the number of an item's schema; SCHEMA is a reserved word of DynamoDB. An item without it has
number 1.
"""

KNOWN_SCHEMA: Final = 1

BROKEN: Final = (ValueError, TypeError, KeyError, AttributeError, IndexError)
"""Errors that reading a broken item raises."""

log = logging.getLogger(__name__)


class UnreadableRecord(Exception):
    """One unreadable item, and the reason."""

    def __init__(self, kind: str, item_id: str, reason: str) -> None:
        super().__init__(f"item {kind} {item_id} of the table cannot be read: {reason}")
        self.kind = kind
        self.id = item_id
        self.reason = reason


def read_one(kind: str, item: Item, read: Callable[[Item], Record]) -> Record:
    """Return the result of `read` for an item; UnreadableRecord if the item is unreadable."""
    try:
        found = number(item, SCHEMA_NUMBER) or KNOWN_SCHEMA
        if found > KNOWN_SCHEMA:
            raise ValueError(f"its schema number is {found}, and this version of Joiner knows {KNOWN_SCHEMA}")
        return read(item)
    except BROKEN as reason:
        message = str(reason) if isinstance(reason, ValueError) else f"{type(reason).__name__}: {reason}"
        raise UnreadableRecord(kind, str(item.get("id", {}).get("S", "")), message) from reason


def read_all(
    kind: str, items: Iterable[Item], read: Callable[[Item], Record]
) -> tuple[list[Record], list[UnreadableRecord]]:
    """Return the readable items as values, and the unreadable ones, which are logged."""
    found: list[Record] = []
    unreadable: list[UnreadableRecord] = []
    for item in items:
        try:
            found.append(read_one(kind, item, read))
        except UnreadableRecord as reason:
            log.error("%s; it is left out, and the others are read. Delete the item once its cause is known", reason)
            unreadable.append(reason)
    return found, unreadable


def with_schema_number(expression: str) -> str:
    """Return an update expression that also writes the schema number of a new item (value `:schemaNumber`).

    >>> with_schema_number("ADD rings :one SET storedAt = :at")
    'ADD rings :one SET schemaNumber = if_not_exists(schemaNumber, :schemaNumber), storedAt = :at'
    >>> with_schema_number("REMOVE holder")
    'SET schemaNumber = if_not_exists(schemaNumber, :schemaNumber) REMOVE holder'
    """
    ours = f"SET {SCHEMA_NUMBER} = if_not_exists({SCHEMA_NUMBER}, :{SCHEMA_NUMBER})"
    before, sets, after = expression.partition("SET ")
    return f"{before}{ours}, {after}" if sets else f"{ours} {expression}"
