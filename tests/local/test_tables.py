"""DynamoDB: the conditional writes that leases and launches depend on, with many concurrent writers of one item."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local


class ItemTable:
    def __init__(self, aws: RunningAws) -> None:
        self.api = aws.client("dynamodb")
        self.name = aws.table()

    @staticmethod
    def key(kind: str, id_: str = "x") -> dict[str, Any]:
        return {"kind": {"S": kind}, "id": {"S": id_}}

    def get(self, kind: str, id_: str = "x") -> dict[str, Any] | None:
        item: dict[str, Any] | None = self.api.get_item(
            TableName=self.name, Key=self.key(kind, id_), ConsistentRead=True
        ).get("Item")
        return item

    def put(self, kind: str, id_: str = "x", **attributes: Any) -> None:
        self.api.put_item(TableName=self.name, Item={**self.key(kind, id_), **attributes})

    def update(
        self, kind: str, expression: str, values: dict[str, Any], condition: str | None = None, **more: Any
    ) -> dict[str, Any]:
        conditional = {"ConditionExpression": condition} if condition else {}
        answer: dict[str, Any] = self.api.update_item(
            TableName=self.name,
            Key=self.key(kind),
            UpdateExpression=expression,
            ExpressionAttributeValues=values,
            ReturnValues="ALL_NEW",
            **conditional,
            **more,
        )
        attributes: dict[str, Any] = answer["Attributes"]
        return attributes


@pytest.fixture
def table(local_aws: RunningAws) -> ItemTable:
    return ItemTable(local_aws)


def test_a_counter_that_many_increment_counts_all_and_returns_each_its_number(table: ItemTable) -> None:
    with ThreadPoolExecutor(16) as pool:
        numbers = list(
            pool.map(
                lambda _: int(table.update("LEASE", "ADD rings :one", {":one": {"N": "1"}})["rings"]["N"]), range(100)
            )
        )
    assert sorted(numbers) == list(range(1, 101))


def test_of_many_who_want_the_lease_one_gets_it(table: ItemTable) -> None:
    def take(number: int) -> bool:
        try:
            table.update(
                "LEASE",
                "SET holder = :me, leaseNumber = if_not_exists(leaseNumber, :zero) + :one",
                {":me": {"S": str(number)}, ":zero": {"N": "0"}, ":one": {"N": "1"}},
                "attribute_not_exists(holder)",
            )
        except table.api.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(take, range(60)))
    item = table.get("LEASE")
    assert (sum(taken), item) == (
        1,
        {**table.key("LEASE"), "holder": {"S": str(taken.index(True))}, "leaseNumber": {"N": "1"}},
    )


def test_an_item_is_put_once(table: ItemTable) -> None:
    def put(number: int) -> bool:
        try:
            table.api.put_item(
                TableName=table.name,
                Item={**table.key("LAUNCH"), "by": {"N": str(number)}},
                ConditionExpression="attribute_not_exists(id)",
            )
        except table.api.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(put, range(60))) == 1


def test_a_failed_condition_shows_the_item_if_asked(table: ItemTable) -> None:
    table.put("LEASE", holder={"S": "other"})
    with pytest.raises(table.api.exceptions.ConditionalCheckFailedException) as refused:
        table.update(
            "LEASE",
            "SET holder = :me",
            {":me": {"S": "me"}},
            "holder = :me",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert refused.value.response["Item"] == {**table.key("LEASE"), "holder": {"S": "other"}}


def test_removing_the_token_gives_the_old_one_to_one_caller(table: ItemTable) -> None:
    table.put("WAVE", wakeToken={"S": "t"})

    def take(_: int) -> str | None:
        answer = table.api.update_item(
            TableName=table.name, Key=table.key("WAVE"), UpdateExpression="REMOVE wakeToken", ReturnValues="UPDATED_OLD"
        )
        token: str | None = answer.get("Attributes", {}).get("wakeToken", {}).get("S")
        return token

    with ThreadPoolExecutor(8) as pool:
        assert sorted(filter(None, pool.map(take, range(20)))) == ["t"]


def launch(table: ItemTable, launch_id: str, lease_number: str) -> list[dict[str, Any]]:
    """Return the transaction that precedes CreateFleet: it succeeds only under the current lease, and only once."""
    return [
        {
            "ConditionCheck": {
                "TableName": table.name,
                "Key": table.key("LEASE"),
                "ConditionExpression": "leaseNumber = :n",
                "ExpressionAttributeValues": {":n": {"N": lease_number}},
            }
        },
        {
            "Put": {
                "TableName": table.name,
                "Item": {**table.key("LAUNCH", launch_id), "state": {"S": "open"}},
                "ConditionExpression": "attribute_not_exists(id)",
            }
        },
    ]


def test_a_transaction_under_an_old_lease_writes_nothing_and_names_the_failed_condition(table: ItemTable) -> None:
    table.put("LEASE", leaseNumber={"N": "4"})
    with pytest.raises(table.api.exceptions.TransactionCanceledException) as refused:
        table.api.transact_write_items(TransactItems=launch(table, "a", "3"))
    assert [reason["Code"] for reason in refused.value.response["CancellationReasons"]] == [
        "ConditionalCheckFailed",
        "None",
    ]
    assert table.get("LAUNCH", "a") is None

    table.api.transact_write_items(TransactItems=launch(table, "a", "4"))
    assert table.get("LAUNCH", "a") == {**table.key("LAUNCH", "a"), "state": {"S": "open"}}
    with pytest.raises(table.api.exceptions.TransactionCanceledException) as again:
        table.api.transact_write_items(TransactItems=launch(table, "a", "4"))
    assert [reason["Code"] for reason in again.value.response["CancellationReasons"]] == [
        "None",
        "ConditionalCheckFailed",
    ]


def test_a_transaction_that_fails_half_way_leaves_everything_as_it_was(table: ItemTable) -> None:
    table.put("TEXT", value={"S": "no number"})
    update = {"TableName": table.name, "UpdateExpression": "ADD #v :one", "ExpressionAttributeNames": {"#v": "value"}}
    with pytest.raises(table.api.exceptions.ClientError):
        table.api.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": table.name, "Item": table.key("NEW")}},
                {"Update": {**update, "Key": table.key("TEXT"), "ExpressionAttributeValues": {":one": {"N": "1"}}}},
            ]
        )
    assert (table.get("NEW"), table.get("TEXT")) == (None, {**table.key("TEXT"), "value": {"S": "no number"}})


def test_transactions_against_each_other_are_isolated(table: ItemTable) -> None:
    """Concurrent transactions move money between two items: the sum is constant."""
    for name in ("A", "B"):
        table.put(name, sum={"N": "50"})

    def move(number: int) -> None:
        source, target = ("A", "B") if number % 2 else ("B", "A")
        names, values = {"#sum": "sum"}, {":one": {"N": "1"}}
        subtract = {
            "UpdateExpression": "SET #sum = #sum - :one",
            "ConditionExpression": "#sum >= :one",
            "Key": table.key(source),
        }
        add = {"UpdateExpression": "SET #sum = #sum + :one", "Key": table.key(target)}
        shared = {"TableName": table.name, "ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
        table.api.transact_write_items(
            TransactItems=[{"Update": {**subtract, **shared}}, {"Update": {**add, **shared}}]
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(move, range(60)))
    sums = [int((table.get(name) or {})["sum"]["N"]) for name in ("A", "B")]
    assert sums == [50, 50]


def test_an_update_that_is_refused_leaves_no_empty_item_behind(table: ItemTable) -> None:
    with pytest.raises(table.api.exceptions.ClientError):
        table.update("LEASE", "SET total = missing + :one", {":one": {"N": "1"}})
    assert table.get("LEASE") is None


def test_expired_items_are_deleted(table: ItemTable, local_aws: RunningAws) -> None:
    table.api.update_time_to_live(
        TableName=table.name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )
    now = int(time.time())
    table.put("OLD", expires={"N": str(now - 10)})
    table.put("NEW", expires={"N": str(now + 1000)})
    table.put("NEVER")
    local_aws.knob("expire-items")

    eventually(lambda: table.get("OLD") is None)
    assert table.get("NEW") is not None
    assert table.get("NEVER") is not None


ITEM: dict[str, Any] = {
    "word": {"S": "a"},
    "rings": {"N": "1"},
    "flag": {"BOOL": True},
    "flags": {"L": [{"BOOL": True}]},
    "words": {"SS": ["a", "b"]},
    "gap": {"NULL": True},
    "letters": {"S": "äöü"},
}
GIVEN: dict[str, Any] = {
    ":text": {"S": "a"},
    ":number": {"N": "1.0"},
    ":three": {"N": "3"},
    ":nothing": {"NULL": True},
    ":list": {"L": [{"N": "1"}]},
    ":truth": {"BOOL": True},
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("word < :number OR word > :number", False),
        ("rings <= :text OR rings >= :text", False),
        ("flag < :number OR flag > :number", False),
        ("rings >= :number AND rings <= :number", True),
        ("rings = :number", True),
        ("flag = :number", False),
        ("flag <> :number", True),
        ("flag = :truth", True),
        ("flags = :list", False),
        ("absent = :nothing", False),
        ("gap = :nothing", True),
        ("absent <> :number", True),
        ("absent < :number OR absent > :number", False),
        ("word BETWEEN :number AND :three", False),
        ("rings BETWEEN :number AND :three", True),
        ("flag IN (:number, :text)", False),
        ("rings IN (:text, :number)", True),
        ("contains(flags, :number)", False),
        ("contains(flags, :truth)", True),
        ("contains(words, :text)", True),
        ("contains(word, :text)", True),
        ("size(absent) < :three OR size(absent) >= :three", False),
        ("size(letters) = :three", True),
        ("NOT word < :number", True),
    ],
)
def test_values_of_different_types_are_not_equal_and_have_no_order(
    table: ItemTable, condition: str, *, holds: bool
) -> None:
    table.put("LEASE", **ITEM)
    used = {name: value for name, value in GIVEN.items() if name in condition}
    found = table.api.scan(TableName=table.name, FilterExpression=condition, ExpressionAttributeValues=used)

    assert found["Count"] == holds
