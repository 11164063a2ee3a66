"""One DynamoDB table, read consistently and written under conditions; the adapters of all kinds of items use it."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters.ledger_items import Item, written
from joiner.adapters.records import (
    KNOWN_SCHEMA,
    SCHEMA_NUMBER,
    Record,
    UnreadableRecord,
    read_all,
    read_one,
    with_schema_number,
)
from joiner.item_keys import item_key

TRIES: Final = 6  # of a write that met another one; a transaction holds its items for milliseconds
PAUSE: Final = (0.02, 0.2)  # seconds between them, by chance, so that those who met do not meet again


class ConditionFailed(Exception):
    """The condition of a write did not hold; each caller says what that means."""


class DynamoTable:
    """One deployment's table: `kind` is the partition, `id` the item within it."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table
        self._unreadable: dict[str, tuple[UnreadableRecord, ...]] = {}

    @property
    def unreadable(self) -> tuple[UnreadableRecord, ...]:
        """The items that could not be read when each kind was last listed."""
        return tuple(one for found in self._unreadable.values() for one in found)

    def unreadable_ids(self, kind: str) -> frozenset[str]:
        """The ids of those of one kind."""
        return frozenset(one.id for one in self._unreadable.get(kind, ()))

    def _read(self, kind: str, items: Iterable[Item], read: Callable[[Item], Record]) -> list[Record]:
        """Items of one kind as values; those that cannot be read are left out, and are in `unreadable` until the next
        listing.
        """
        found, unreadable = read_all(kind, items, read)
        self._unreadable[kind] = tuple(unreadable)
        return found

    def _read_one(self, kind: str, item: Item, read: Callable[[Item], Record]) -> Record:
        """One item as a value; UnreadableRecord names its kind, its id and the reason."""
        return read_one(kind, item, read)

    def _get(self, kind: str, item_id: str) -> Item:
        answer = self._client.get_item(TableName=self._table, Key=item_key(kind, item_id), ConsistentRead=True)
        return dict(answer.get("Item", {}))

    def _query(self, kind: str, *, keep: str = "", values: Mapping[str, Any] | None = None) -> list[Item]:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "kind = :kind",
            "ExpressionAttributeValues": {":kind": written(kind)}
            | {name: written(value) for name, value in (values or {}).items()},
            "ConsistentRead": True,
        }
        if keep:
            asked["FilterExpression"] = keep
        found: list[Item] = []
        while True:
            page = self._client.query(**asked)
            found += page["Items"]
            if "LastEvaluatedKey" not in page:
                return found
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _update(
        self,
        kind: str,
        item_id: str,
        expression: str,
        values: Mapping[str, Any],
        *,
        condition: str = "",
        names: Mapping[str, str] | None = None,
    ) -> Item:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "Key": item_key(kind, item_id),
            "UpdateExpression": with_schema_number(expression),
            "ExpressionAttributeValues": {
                name: written(value) for name, value in {**values, f":{SCHEMA_NUMBER}": KNOWN_SCHEMA}.items()
            },
            "ReturnValues": "ALL_NEW",
        }
        if condition:
            asked["ConditionExpression"] = condition
        if names:
            asked["ExpressionAttributeNames"] = dict(names)
        try:
            return dict(write_with_retries(self._client.update_item, **asked).get("Attributes", {}))
        except ClientError as reason:
            if is_condition_failure(reason):
                raise ConditionFailed from reason
            raise

    def _try_update(self, kind: str, item_id: str, expression: str, values: Mapping[str, Any], **more: Any) -> bool:
        try:
            self._update(kind, item_id, expression, values, **more)
        except ConditionFailed:
            return False
        return True

    def _delete(self, kind: str, item_id: str) -> None:
        """One that is gone is success."""
        self._client.delete_item(TableName=self._table, Key=item_key(kind, item_id))


def write_with_retries(write: Callable[..., Mapping[str, Any]], **asked: Any) -> Mapping[str, Any]:
    """The answer to a write, sent again while a transaction holds its item: botocore's own retries leave that out.

    Source: Amazon DynamoDB developer guide, "Transaction conflict handling".
    """
    for _ in range(TRIES - 1):
        try:
            return write(**asked)
        except ClientError as reason:
            if not _is_conflict(reason):
                raise
        time.sleep(random.uniform(*PAUSE))  # noqa: S311 - a pause, not a secret
    return write(**asked)


def _is_conflict(reason: ClientError) -> bool:
    """Did two writes meet? A condition that failed beside it is an answer, and is not asked again."""
    if reason.response["Error"]["Code"] == "TransactionConflictException":
        return True
    causes = {each.get("Code") for each in reason.response.get("CancellationReasons", ())}
    return "TransactionConflict" in causes and "ConditionalCheckFailed" not in causes


def is_condition_failure(reason: ClientError) -> bool:
    """Was the write refused by its own condition?"""
    return reason.response["Error"]["Code"] == "ConditionalCheckFailedException"
