"""DynamoDB on moto's tables: one request at a time, transactions that change everything or nothing, items that expire.

moto reads an item, checks the condition and writes without a lock, so two callers could both take a lease. DynamoDB
orders the writes of one item and isolates transactions; one lock around every request guarantees more than that.

moto also sorts all items of a table for each query, which becomes slower the more items there are.
"""

import copy
import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute
from joiner_local.aws.dynamodb import condition_expressions
from joiner_local.aws.dynamodb.condition_expressions import validate_expressions
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws

log = logging.getLogger(__name__)

SWEEP = 5.0  # seconds between searches for expired items; AWS deletes them within days
MOST_ACTIONS = 100  # of one transaction
_IN_ORDER = (
    "put_item",
    "update_item",
    "delete_item",
    "get_item",
    "query",
    "scan",
    "batch_get_item",
    "batch_write_item",
    "transact_write_items",
    "transact_get_items",
)
_LOCK = threading.RLock()

CancellationReason = tuple[Any, Any, Any]
"""Code, message and item of one action of a cancelled transaction; None where there is none."""

NO_REASON: Final[CancellationReason] = (None, None, None)


def install(aws: LocalAws) -> None:
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table
    from moto.dynamodb.parsing.executors import UpdateExpressionExecutor
    from moto.dynamodb.responses import DynamoHandler

    condition_expressions.install()
    query, update = Table.query, DynamoDBBackend.update_item
    wrap_attribute(Table, "query", _among_its_own(query), query)
    for name in _IN_ORDER:
        handle = getattr(DynamoHandler, name)
        wrap_attribute(DynamoHandler, name, _alone(handle), handle)
    replace_attribute(DynamoDBBackend, "transact_write_items", transact_write_items)
    wrap_attribute(DynamoDBBackend, "update_item", _undone_if_it_fails(update), update)
    execute = UpdateExpressionExecutor.execute
    wrap_attribute(UpdateExpressionExecutor, "execute", _with_own_values(execute), execute)
    stopped = threading.Event()
    aws.closing.append(stopped.set)
    aws.add_knobs({"expire-items": lambda _asked: {"deleted": sweep(time.time())}})
    threading.Thread(target=_sweep_for_ever, args=(stopped,), name="time-to-live", daemon=True).start()


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    def alone(self: Any) -> Any:
        validate_expressions(self.body)
        with _LOCK:
            return method(self)

    return alone


def _among_its_own(query: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `Table.query` that reads only the items of the requested hash key; queries of indexes read all items."""
    signature = inspect.signature(query)

    def narrow(self: Any, hash_key: Any, *args: Any, **kwargs: Any) -> Any:
        if signature.bind(self, hash_key, *args, **kwargs).arguments.get("index_name") or not self.range_key_attr:
            return query(self, hash_key, *args, **kwargs)
        part = object.__new__(type(self))  # moto keeps a list of all backends that its own constructor made
        part.__dict__.update(self.__dict__)
        part.items = {hash_key: self.items[hash_key]} if hash_key in self.items else {}
        return query(part, hash_key, *args, **kwargs)

    return narrow


def _undone_if_it_fails(update: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `update_item` that changes nothing when it fails. moto stores the new item before it validates the
    update, and applies the first half of a failing expression.
    """

    def update_item(self: Any, table_name: str, key: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        with _LOCK:
            before = copy.deepcopy(self.get_item(table_name, key))
            try:
                return update(self, table_name, key, *args, **kwargs)
            except Exception:
                _restore(self, table_name, key, before)
                raise

    return update_item


def _with_own_values(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `UpdateExpressionExecutor.execute` in which every attribute has a value of its own. moto evaluates all
    operands before an update, as DynamoDB does, but as references: a set that one clause takes from an attribute would
    lose the members that another clause deletes there, and two attributes set from one would change together later.
    """

    def execute_apart(self: Any, node: Any = None) -> None:
        if node is None:
            own = {name: copy.deepcopy(value) for name, value in self.item.attrs.items()}
            dict.update(self.item.attrs, own)  # without moto's measurement of the item for each attribute
        execute(self, node)

    return execute_apart


def _restore(backend: Any, table_name: str, key: Mapping[str, Any], before: Any) -> None:
    table = backend.get_table(table_name)
    if before is None:
        table.delete_item(*backend.get_keys_value(table, key))
    else:
        table.put_item(before.to_json()["Attributes"])


@dataclass(frozen=True, slots=True)
class TransactAction:
    """One action of a transaction, and the item before it. `refusal` is a cancellation reason; all None if there is
    none.
    """

    kind: str
    request: Mapping[str, Any]
    key: dict[str, Any]
    before: Any
    refusal: CancellationReason = NO_REASON

    @property
    def table(self) -> str:
        return str(self.request["TableName"])


def transact_write_items(self: Any, transact_items: Sequence[Mapping[str, Mapping[str, Any]]]) -> None:
    """Check every condition, then write everything ("TransactWriteItems"). moto writes while it checks, and copies
    whole tables for a rollback.
    """
    from moto.dynamodb.exceptions import (
        MultipleTransactionsException,
        TooManyTransactionsException,
        TransactionCanceledException,
        TransactWriteSingleOpException,
    )

    if len(transact_items) > MOST_ACTIONS:
        raise TooManyTransactionsException
    actions: list[TransactAction] = []
    seen: set[tuple[str, str]] = set()
    with _LOCK:
        for item in transact_items:
            if len(item) != 1:
                raise TransactWriteSingleOpException
            ((kind, request),) = item.items()
            key = _key(self, kind, request)
            identity = (request["TableName"], str(sorted(key.items())))
            if identity in seen:
                raise MultipleTransactionsException
            seen.add(identity)
            actions.append(_checked_action(self, kind, request, key))
        if any(action.refusal != NO_REASON for action in actions):
            raise TransactionCanceledException([action.refusal for action in actions])
        _write_all(self, actions)


def _checked_action(backend: Any, kind: str, request: Mapping[str, Any], key: dict[str, Any]) -> TransactAction:
    """Read the item and check the condition of one action."""
    from moto.dynamodb.comparisons import get_filter_expression

    current = backend.get_item(request["TableName"], key)
    condition = get_filter_expression(
        request.get("ConditionExpression"),
        request.get("ExpressionAttributeNames"),
        request.get("ExpressionAttributeValues"),
    )
    before = copy.deepcopy(current)
    if request.get("ConditionExpression") is None or condition.expr(current):
        return TransactAction(kind, request, key, before)
    shown = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and current is not None
    attributes = current.to_json()["Attributes"] if shown else None
    refusal = ("ConditionalCheckFailed", "The conditional request failed", attributes)
    return TransactAction(kind, request, key, before, refusal)


def _write_all(backend: Any, actions: Sequence[TransactAction]) -> None:
    """Write every action; restore all items if one fails."""
    from moto.dynamodb.exceptions import MockValidationException, TransactionCanceledException

    begun: list[TransactAction] = []
    try:
        for action in actions:
            begun.append(action)
            _write(backend, action.kind, action.request, action.key)
    except Exception as error:
        for action in reversed(begun):
            _restore(backend, action.table, action.key, action.before)
        if isinstance(error, MockValidationException):
            raise
        reasons: list[CancellationReason] = [NO_REASON] * len(actions)
        reasons[len(begun) - 1] = ("ValidationError", str(error), None)
        raise TransactionCanceledException(reasons) from error


def _key(backend: Any, kind: str, action: Mapping[str, Any]) -> dict[str, Any]:
    if kind != "Put":
        return dict(action["Key"])
    table = backend.get_table(action["TableName"])
    return {name: action["Item"][name] for name in (table.hash_key_attr, table.range_key_attr) if name is not None}


def _write(backend: Any, kind: str, action: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    if kind == "Put":
        backend.put_item(action["TableName"], action["Item"])
    elif kind == "Delete":
        backend.delete_item(action["TableName"], key)
    elif kind == "Update":
        backend.update_item(
            action["TableName"],
            key,
            update_expression=action["UpdateExpression"],
            expression_attribute_names=action.get("ExpressionAttributeNames"),
            expression_attribute_values=action.get("ExpressionAttributeValues"),
        )


def _sweep_for_ever(stopped: threading.Event) -> None:
    while not stopped.wait(SWEEP):
        try:
            sweep(time.time())
        except Exception:
            log.exception("time to live")


def sweep(now: float) -> int:
    """Delete the items whose time-to-live attribute (epoch seconds) has passed. Returns their number."""
    from moto.dynamodb.models import dynamodb_backends

    deleted = 0
    with _LOCK:
        for table in list(dynamodb_backends[ACCOUNT][REGION].tables.values()):
            if table.ttl.get("TimeToLiveStatus") != "ENABLED":
                continue
            attribute = table.ttl["AttributeName"]
            for item in _items(table):
                value = item.attrs.get(attribute)
                if value is not None and value.type == "N" and 0 < float(value.value) < now:
                    table.delete_item(item.hash_key, item.range_key)
                    deleted += 1
    return deleted


def _items(table: Any) -> list[Any]:
    """Return all items of a table, in no order."""
    return [item for found in table.items.values() for item in (found.values() if table.range_key_attr else (found,))]
