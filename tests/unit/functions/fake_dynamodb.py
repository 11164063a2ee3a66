"""One DynamoDB table in memory with the methods of a boto3 client that `joiner.adapters` use, for tests of functions.

Its contract is that of the local AWS: `tests/local/test_ledger.py` runs against both, and
`tests/local/test_fake_dynamodb.py` compares their answers to drawn requests. Items do not expire, since DynamoDB may
delete an expired item days later. Arguments and values that are not known here are refused.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import ClientError

from tests.unit.functions.dynamodb_expressions import (
    NotFaked,
    Parsed,
    ValidationError,
    Value,
    Values,
    accepted,
    parse_condition,
    parse_update,
)

KEY: Final = ("kind", "id")
MOST_OF_A_BATCH: Final = 100
MOST_OF_AN_ITEM: Final = 400 * 1024
PAGE: Final = 1024 * 1024  # bytes that one Query reads
BATCH: Final = 16 * 1024 * 1024  # bytes that one BatchGetItem returns
FAILED: Final = "The conditional request failed"
UNCONDITIONAL: Final = Parsed(frozenset())

Item = dict[str, Value]


@dataclass(frozen=True)
class WriteCondition:
    """The arguments of a condition, which every write may have. An argument that is not here is a TypeError."""

    ConditionExpression: str = ""
    ExpressionAttributeNames: Mapping[str, str] = field(default_factory=dict)
    ExpressionAttributeValues: Values = field(default_factory=dict)


@dataclass
class Write:
    """One write that was checked: the item before it and after it, None where there is none."""

    key: tuple[str, str]
    before: Item | None
    after: Item | None
    holds: bool
    """Whether its condition is true."""


@dataclass
class FakeDynamoDb:
    """A client and its one table, whose keys are `kind` and `id`; `asked` lists every call and the kind of its item."""

    table: str
    asked: list[tuple[str, str]] = field(default_factory=list)
    _items: dict[str, dict[str, Item]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # Reads

    def get_item(self, *, TableName: str, Key: Values, ConsistentRead: bool = False) -> dict[str, Any]:
        with self._called("GetItem", TableName, Key):
            _is_consistent(ConsistentRead)
            found = self._item(_key(Key))
            return {"Item": _copied(found)} if found is not None else {}

    def batch_get_item(self, *, RequestItems: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        ((table, wanted),) = RequestItems.items()
        if wanted.keys() - {"Keys", "ConsistentRead"}:
            raise NotFaked(f"BatchGetItem with {sorted(wanted)}")
        with self._called("BatchGetItem", table):
            _is_consistent(wanted.get("ConsistentRead", False))
            keys = [_key(each) for each in wanted["Keys"]]
            if not 0 < len(keys) <= MOST_OF_A_BATCH or len(set(keys)) < len(keys):
                raise ValidationError("a batch has one to a hundred keys, each once")
            found: list[Item] = []
            size = 0
            for position, key in enumerate(keys):
                item = self._item(key)
                if item is None:
                    continue
                size += _size(item)
                if size > BATCH and found:
                    rest = {**wanted, "Keys": list(wanted["Keys"][position:])}
                    return {"Responses": {table: found}, "UnprocessedKeys": {table: rest}}
                found.append(_copied(item))
            return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def query(
        self,
        *,
        TableName: str,
        KeyConditionExpression: str,
        ExpressionAttributeValues: Values,
        ConsistentRead: bool = False,
        FilterExpression: str = "",
        ExclusiveStartKey: Values | None = None,
    ) -> dict[str, Any]:
        """All items of one kind, in the order of their ids."""
        with self._called("Query", TableName, {"kind": ExpressionAttributeValues.get(":kind", {})}):
            _is_consistent(ConsistentRead)
            if KeyConditionExpression != "kind = :kind":
                raise NotFaked(f"Query by {KeyConditionExpression}")
            keep = parse_condition(FilterExpression, {}) if FilterExpression else UNCONDITIONAL
            values = _values(ExpressionAttributeValues, {}, keep, used={":kind"})
            partition = self._items.get(values[":kind"]["S"], {})
            after = _key(ExclusiveStartKey)[1].encode() if ExclusiveStartKey else b""
            found, size = [], 0
            for item_id in sorted(partition, key=str.encode):
                if item_id.encode() <= after:
                    continue
                item = partition[item_id]
                size += _size(item)
                if keep.condition(item, values):
                    found.append(_copied(item))
                if size > PAGE:
                    return {"Items": found, "LastEvaluatedKey": {name: item[name] for name in KEY}}
            return {"Items": found}

    # Writes

    def put_item(self, *, TableName: str, Item: Values) -> dict[str, Any]:
        with self._called("PutItem", TableName, Item):
            self._store([self._put(TableName=TableName, Item=Item)])
            return {}

    def update_item(self, *, ReturnValues: str = "NONE", **asked: Any) -> dict[str, Any]:
        with self._called("UpdateItem", asked["TableName"], asked["Key"]):
            if ReturnValues not in ("NONE", "ALL_NEW", "ALL_OLD"):
                raise NotFaked(f"UpdateItem that returns {ReturnValues}")
            write = self._checked("UpdateItem", self._update(**asked))
            returned = {"ALL_NEW": write.after, "ALL_OLD": write.before}.get(ReturnValues)
            return {"Attributes": _copied(returned)} if returned is not None else {}

    def delete_item(self, **asked: Any) -> dict[str, Any]:
        with self._called("DeleteItem", asked["TableName"], asked["Key"]):
            self._checked("DeleteItem", self._deletion(**asked))
            return {}

    def transact_write_items(self, *, TransactItems: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
        """Everything or nothing: every condition is checked before the first write."""
        actions: Mapping[str, Callable[..., Write]] = {
            "Put": self._put,
            "Update": self._update,
            "Delete": self._deletion,
            "ConditionCheck": self._condition_check,
        }
        parts = [next(iter(each.items())) for each in TransactItems if len(each) == 1]
        with self._called("TransactWriteItems", parts[0][1]["TableName"] if parts else self.table):
            if not 0 < len(parts) <= MOST_OF_A_BATCH or len(parts) < len(TransactItems):
                raise ValidationError("a transaction has one to a hundred actions, each of one kind")
            writes = [actions[kind](**asked) for kind, asked in parts]
            if len({write.key for write in writes}) < len(writes):
                raise ValidationError("a transaction cannot include several actions on one item")
            if not all(write.holds for write in writes):
                reasons = [
                    {"Code": "None"} if write.holds else {"Code": "ConditionalCheckFailed", "Message": FAILED}
                    for write in writes
                ]
                raise _error("TransactWriteItems", "TransactionCanceledException", "cancelled", reasons)
            self._store(writes)
            return {}

    # Actions: what a write would do

    def _put(self, *, TableName: str, Item: Values, **condition: Any) -> Write:
        self._is_ours(TableName)
        key = _key({name: value for name, value in Item.items() if name in KEY})
        holds, _ = self._holds(key, WriteCondition(**condition))
        return Write(key, self._item(key), {name: accepted(value) for name, value in Item.items()}, holds)

    def _update(self, *, TableName: str, Key: Values, UpdateExpression: str, **condition: Any) -> Write:
        self._is_ours(TableName)
        key = _key(Key)
        asked = WriteCondition(**condition)
        update = parse_update(UpdateExpression, asked.ExpressionAttributeNames)
        changes = update.changes or {}
        if changes.keys() & {*KEY}:
            raise ValidationError("cannot update an attribute that is part of the key")
        holds, values = self._holds(key, asked, update)
        before = self._item(key)
        if not holds:
            return Write(key, before, before, holds)
        after: Item = dict(before) if before is not None else dict(Key)
        for name, change in changes.items():
            value = change(before or {}, values)
            if value is None:
                after.pop(name, None)
            else:
                after[name] = value
        return Write(key, before, after, holds)

    def _deletion(self, *, TableName: str, Key: Values, **condition: Any) -> Write:
        self._is_ours(TableName)
        key = _key(Key)
        holds, _ = self._holds(key, WriteCondition(**condition))
        return Write(key, self._item(key), None, holds)

    def _condition_check(self, **asked: Any) -> Write:
        write = self._deletion(**asked)
        return Write(write.key, write.before, write.before, write.holds)

    def _holds(
        self, key: tuple[str, str], asked: WriteCondition, update: Parsed = UNCONDITIONAL
    ) -> tuple[bool, Values]:
        """Return whether the condition of a write is true, and the values of its request."""
        expression, names = asked.ConditionExpression, asked.ExpressionAttributeNames
        condition = parse_condition(expression, names) if expression else UNCONDITIONAL
        known = _values(asked.ExpressionAttributeValues, names, condition, update)
        return condition.condition(self._item(key) or {}, known), known

    # The table

    @contextmanager
    def _called(self, operation: str, table: str, key: Values | None = None) -> Iterator[None]:
        """Serialize requests; turn a refusal into the error that boto3 raises."""
        with self._lock:
            self.asked.append((operation, (key or {}).get("kind", {}).get("S", "")))
            self._is_ours(table)
            try:
                yield
            except ValidationError as reason:
                raise _error(operation, "ValidationException", str(reason)) from reason

    def _is_ours(self, table: str) -> None:
        if table != self.table:
            raise NotFaked(f"table {table}")

    def _item(self, key: tuple[str, str]) -> Item | None:
        return self._items.get(key[0], {}).get(key[1])

    def _checked(self, operation: str, write: Write) -> Write:
        if not write.holds:
            raise _error(operation, "ConditionalCheckFailedException", FAILED)
        self._store([write])
        return write

    def _store(self, writes: Sequence[Write]) -> None:
        for write in writes:
            if write.after is not None and _size(write.after) > MOST_OF_AN_ITEM:
                raise ValidationError("item size has exceeded the maximum allowed size")
        for write in writes:
            kind, item_id = write.key
            if write.after is not None:
                self._items.setdefault(kind, {})[item_id] = write.after
            else:
                self._items.get(kind, {}).pop(item_id, None)


def _is_consistent(consistent: bool) -> None:
    """Refuse a read that need not see the last write, which no function makes."""
    if not consistent:
        raise NotFaked("an eventually consistent read")


def _key(key: Values) -> tuple[str, str]:
    if key.keys() != {*KEY} or not all(each.keys() == {"S"} and each["S"] for each in key.values()):
        raise ValidationError(f"the provided key element does not match the schema: {key}")
    return key["kind"]["S"], key["id"]["S"]


def _values(values: Values, names: Mapping[str, str], *expressions: Parsed, used: set[str] | None = None) -> Values:
    """Return the values of a request, all of which its expressions must use, as they must use its names."""
    needed = set(used or ()).union(*(each.used for each in expressions))
    given = {*values, *names}
    if needed != given:
        raise ValidationError(f"placeholders that are unused or undefined: {sorted(needed ^ given)}")
    return {name: accepted(value) for name, value in values.items()}


def _size(item: Values) -> int:
    """Return about how many bytes DynamoDB counts for an item."""
    return sum(len(name) + _size_of(value) for name, value in item.items())


def _size_of(value: Value) -> int:
    ((kind, content),) = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "SS":
        return sum(len(each.encode()) for each in content)
    if kind == "L":
        return 3 + sum(1 + _size_of(each) for each in content)
    return len(content) // 2 + 2 if kind == "N" else 1


def _copied(item: Values) -> Item:
    """Return an item that the caller may change."""
    return {name: _copied_value(value) for name, value in item.items()}


def _copied_value(value: Value) -> Value:
    ((kind, content),) = value.items()
    if kind == "L":
        return {kind: [_copied_value(each) for each in content]}
    return {kind: list(content) if kind == "SS" else content}


def _error(operation: str, code: str, message: str, reasons: Sequence[Mapping[str, str]] | None = None) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    if reasons is not None:
        answer["CancellationReasons"] = list(reasons)
    return ClientError(answer, operation)
