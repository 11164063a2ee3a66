"""One DynamoDB table with consistent reads and conditional writes; the adapters of all kinds of items use it."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters.item_attributes import Item, written
from joiner.adapters.item_reading import (
    KNOWN_SCHEMA,
    SCHEMA_NUMBER,
    Record,
    UnreadableRecord,
    read_all,
    read_one,
    with_schema_number,
)
from joiner.item_keys import item_key

TRIES: Final = 6  # of a write that conflicts with another; a transaction locks its items for milliseconds
PAUSE: Final = (0.02, 0.2)  # seconds between tries, random, so that conflicting writers do not conflict again

BATCH_GET: Final = 100  # items, the limit of BatchGetItem
TRANSACTION: Final = 100  # items, the limit of TransactWriteItems
BATCH_PAUSES: Final = (0.05, 0.1, 0.2, 0.4)
"""Seconds before the unprocessed keys of a batch are asked for; the last one repeats."""


class ConditionFailed(Exception):
    """The condition of a write is false; each caller defines what that means."""


class ItemTooLarge(Exception):
    """DynamoDB refuses a write because the item would be larger than 400 KB."""


class DynamoTable:
    """The table of one deployment: `kind` is the partition, `id` the item within it."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table
        self._unreadable: dict[str, tuple[UnreadableRecord, ...]] = {}

    @property
    def unreadable(self) -> tuple[UnreadableRecord, ...]:
        """The items that were unreadable when each kind was last listed."""
        return tuple(one for found in self._unreadable.values() for one in found)

    def unreadable_ids(self, kind: str) -> frozenset[str]:
        """Return the ids of the unreadable items of one kind."""
        return frozenset(one.id for one in self._unreadable.get(kind, ()))

    def _read(self, kind: str, items: Iterable[Item], read: Callable[[Item], Record]) -> list[Record]:
        """Return items of one kind as values. Unreadable ones are left out, and are in `unreadable` until the next
        listing.
        """
        found, unreadable = read_all(kind, items, read)
        self._unreadable[kind] = tuple(unreadable)
        return found

    def _read_one(self, kind: str, item: Item, read: Callable[[Item], Record]) -> Record:
        """Return one item as a value; UnreadableRecord names its kind, its id and the reason."""
        return read_one(kind, item, read)

    def _get_one(self, kind: str, item_id: str, read: Callable[[Item], Record]) -> Record | None:
        """Return one item as a value, None if it does not exist; UnreadableRecord if it is unreadable."""
        item = self._get(kind, item_id)
        return self._read_one(kind, item, read) if item else None

    def _get_or_default(self, kind: str, item_id: str, read: Callable[[Item], Record], default: Record) -> Record:
        """Return one item as a value; the default if it does not exist or is unreadable, then it is in `unreadable`."""
        item = self._get(kind, item_id)
        return next(iter(self._read(kind, [item] if item else [], read)), default)

    def _get(self, kind: str, item_id: str) -> Item:
        answer = self._client.get_item(TableName=self._table, Key=item_key(kind, item_id), ConsistentRead=True)
        return dict(answer.get("Item", {}))

    def _get_each(self, kind: str, ids: Iterable[str]) -> list[Item]:
        """Return the items of one kind that exist, of all `ids`.

        BatchGetItem returns what it did not read in ``UnprocessedKeys``, because the answer would exceed 16 MB or the
        table is throttled. It reads at least one item, or fails, so the loop ends. botocore does not send the rest.
        """
        wanted = sorted(set(ids))
        found: list[Item] = []
        for start in range(0, len(wanted), BATCH_GET):
            keys: list[Any] = [item_key(kind, each) for each in wanted[start : start + BATCH_GET]]
            for pause in chain((0.0,), BATCH_PAUSES, repeat(BATCH_PAUSES[-1])):
                time.sleep(pause)
                answer = self._client.batch_get_item(RequestItems={self._table: {"Keys": keys, "ConsistentRead": True}})
                found += answer["Responses"].get(self._table, ())
                keys = list(answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", ()))
                if not keys:
                    break
        return found

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
            if _is_size_failure(reason):
                raise ItemTooLarge(f"item {kind} {item_id}: {reason}") from reason
            raise

    def _try_update(self, kind: str, item_id: str, expression: str, values: Mapping[str, Any], **more: Any) -> bool:
        try:
            self._update(kind, item_id, expression, values, **more)
        except ConditionFailed:
            return False
        return True

    def _update_together(
        self,
        kind: str,
        expression: str,
        values: Mapping[str, Mapping[str, Any]],
        *,
        condition: str,
    ) -> bool:
        """Update several items of one kind in one request; `values` are those of each item, by its id.

        Return False if nothing was written, because the condition is false for an item or other writes conflict.
        """
        updates = [
            {
                "Update": {
                    "TableName": self._table,
                    "Key": item_key(kind, item_id),
                    "UpdateExpression": with_schema_number(expression),
                    "ConditionExpression": condition,
                    "ExpressionAttributeValues": {
                        name: written(value) for name, value in {**its, f":{SCHEMA_NUMBER}": KNOWN_SCHEMA}.items()
                    },
                }
            }
            for item_id, its in sorted(values.items())
        ]
        try:
            write_with_retries(self._client.transact_write_items, TransactItems=updates)
        except ClientError as reason:
            if reason.response["Error"]["Code"] != "TransactionCanceledException":
                raise
            return False
        return True

    def _delete(self, kind: str, item_id: str) -> None:
        """Delete an item. A missing item is success."""
        self._client.delete_item(TableName=self._table, Key=item_key(kind, item_id))

    def _try_delete(
        self,
        kind: str,
        item_id: str,
        *,
        condition: str,
        values: Mapping[str, Any],
        names: Mapping[str, str] | None = None,
    ) -> bool:
        """Delete an item; return False if the condition is false for it, as most are for a missing item."""
        asked: dict[str, Any] = {"ExpressionAttributeNames": dict(names)} if names else {}
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=item_key(kind, item_id),
                ConditionExpression=condition,
                ExpressionAttributeValues={name: written(value) for name, value in values.items()},
                **asked,
            )
        except ClientError as reason:
            if is_condition_failure(reason):
                return False
            raise
        return True


def write_with_retries(write: Callable[..., Mapping[str, Any]], **asked: Any) -> Mapping[str, Any]:
    """Send a write, and send it again while a transaction locks its item; return the answer. botocore does not retry
    this.

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
    """Return whether two writes conflicted. If a condition failed too, the write is not retried."""
    if reason.response["Error"]["Code"] == "TransactionConflictException":
        return True
    causes = {each.get("Code") for each in reason.response.get("CancellationReasons", ())}
    return "TransactionConflict" in causes and "ConditionalCheckFailed" not in causes


def is_condition_failure(reason: ClientError) -> bool:
    """Return whether the write failed by its own condition."""
    return reason.response["Error"]["Code"] == "ConditionalCheckFailedException"


def _is_size_failure(reason: ClientError) -> bool:
    """Return whether the write failed because of the size of the item; the code is that of every invalid request."""
    error = reason.response["Error"]
    return error["Code"] == "ValidationException" and str(error.get("Message", "")).lower().startswith("item size")
