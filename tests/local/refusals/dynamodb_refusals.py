"""DynamoDB: items, keys, expressions and transactions."""

from typing import Any, Final

from tests.local.refusals.refused_calls import not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws

DYNAMODB: Final = "dynamodb"
INVALID: Final = "ValidationException"
QUOTAS: Final = "DynamoDB developer guide, Quotas"
EXPRESSIONS: Final = "DynamoDB developer guide, Expressions"
API: Final = "DynamoDB API reference"
KEY: Final = {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}


def table(aws: RunningAws) -> str:
    """Create a table with the same keys as Joiner's."""
    return aws.table("refusing")


def update(aws: RunningAws, expression: str, values: dict[str, Any] | None = None, **more: Any) -> None:
    asked: dict[str, Any] = {"TableName": table(aws), "Key": KEY, "UpdateExpression": expression, **more}
    aws.client(DYNAMODB).update_item(**asked, **({"ExpressionAttributeValues": values} if values else {}))


@refuses(DYNAMODB, "UpdateItem", "an item above 400 KB", code=INVALID, message="maximum allowed size", source=QUOTAS)
def a_large_item(aws: RunningAws) -> None:
    update(aws, "SET claims = :claims", {":claims": {"S": "x" * 410_000}})


@refuses(
    DYNAMODB,
    "UpdateItem",
    "an item that grows above 400 KB",
    code=INVALID,
    message="maximum allowed size",
    source=QUOTAS,
)
def an_item_that_grows(aws: RunningAws) -> None:
    name = table(aws)
    for attribute in ("long1", "long2"):
        update(aws, f"SET {attribute} = :long", {":long": {"S": "x" * 250_000}}, TableName=name)


@refuses(DYNAMODB, "UpdateItem", "an empty key", code=INVALID, message="empty string value", source=QUOTAS)
def an_empty_key(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}}, Key={"kind": {"S": "LEASE"}, "id": {"S": ""}})


@refuses(DYNAMODB, "UpdateItem", "a sort key above 1,024 bytes", code=INVALID, message="1024 bytes", source=QUOTAS)
def a_long_sort_key(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}}, Key={"kind": {"S": "LEASE"}, "id": {"S": "x" * 1025}})


@refuses(DYNAMODB, "UpdateItem", "a key of another schema", code=INVALID, source=API)
def a_key_of_another_schema(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}}, Key={"kind": {"S": "LEASE"}})


@refuses(
    DYNAMODB, "UpdateItem", "a change of the key", code=INVALID, message="This attribute is part of the key", source=API
)
def a_change_of_the_key(aws: RunningAws) -> None:
    update(aws, "SET id = :id", {":id": {"S": "other"}})


@refuses(
    DYNAMODB,
    "UpdateItem",
    "a reserved word",
    code=INVALID,
    message="reserved keyword",
    source="DynamoDB developer guide, Reserved words",
)
def a_reserved_word(aws: RunningAws) -> None:
    update(aws, "SET owner = :me", {":me": {"S": "me"}})


@refuses(
    DYNAMODB,
    "UpdateItem",
    "a value that no expression uses",
    code=INVALID,
    message="unused in expressions",
    source=EXPRESSIONS,
)
def a_value_that_is_not_used(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}, ":b": {"S": "b"}})


@refuses(
    DYNAMODB, "UpdateItem", "a value that is not given", code=INVALID, message="is not defined", source=EXPRESSIONS
)
def a_value_that_is_not_given(aws: RunningAws) -> None:
    update(aws, "SET a = :a, b = :b", {":a": {"S": "a"}})


@refuses(DYNAMODB, "UpdateItem", "an empty set", code=INVALID, message="may not be empty", source=QUOTAS)
def an_empty_set(aws: RunningAws) -> None:
    update(aws, "ADD reasons :none", {":none": {"SS": []}})


@refuses(DYNAMODB, "UpdateItem", "two changes of one attribute", code=INVALID, message="overlap", source=EXPRESSIONS)
def two_changes_of_one_attribute(aws: RunningAws) -> None:
    update(aws, "SET a = :a, a = :b", {":a": {"S": "a"}, ":b": {"S": "b"}})


@refuses(DYNAMODB, "UpdateItem", "an addition to text", code=INVALID, message="incorrect data type", source=EXPRESSIONS)
def an_addition_to_text(aws: RunningAws) -> None:
    update(aws, "ADD rings :one", {":one": {"S": "1"}})


@refuses(DYNAMODB, "UpdateItem", "an expression above 4 KB", code=INVALID, message="Expression size", source=QUOTAS)
def a_long_expression(aws: RunningAws) -> None:
    update(aws, "SET " + ", ".join(f"attribute{number} = :a" for number in range(400)), {":a": {"S": "a"}})


@refuses(DYNAMODB, "UpdateItem", "a condition that does not hold", code="ConditionalCheckFailedException", source=API)
def a_condition_that_does_not_hold(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}}, ConditionExpression="attribute_exists(holder)")


@refuses(DYNAMODB, "UpdateItem", "a table that does not exist", code="ResourceNotFoundException", source=API)
def a_table_that_does_not_exist(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}}, TableName="nowhere")


@refuses(
    DYNAMODB,
    "UpdateItem",
    "a condition that ends too early",
    code=INVALID,
    message="Invalid ConditionExpression",
    source=EXPRESSIONS,
)
def a_condition_that_ends_too_early(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}}, ConditionExpression="a = :a AND")


@refuses(
    DYNAMODB,
    "UpdateItem",
    "a condition on the order of a value without order",
    code=INVALID,
    message="Incorrect operand type for operator or function; operator or function: <, operand type: BOOL",
    source=EXPRESSIONS,
)
def an_order_of_a_truth_value(aws: RunningAws) -> None:
    update(aws, "SET a = :a", {":a": {"S": "a"}, ":b": {"BOOL": True}}, ConditionExpression="a < :b")


@refuses(
    DYNAMODB,
    "DeleteItem",
    "a condition with a value that is not given",
    code=INVALID,
    message="is not defined; attribute value: :until",
    source=EXPRESSIONS,
)
def a_condition_with_a_value_that_is_not_given(aws: RunningAws) -> None:
    aws.client(DYNAMODB).delete_item(TableName=table(aws), Key=KEY, ConditionExpression="leaseUntil < :until")


@refuses(DYNAMODB, "DeleteItem", "a condition that does not hold", code="ConditionalCheckFailedException", source=API)
def a_deletion_whose_condition_does_not_hold(aws: RunningAws) -> None:
    aws.client(DYNAMODB).delete_item(TableName=table(aws), Key=KEY, ConditionExpression="attribute_exists(holder)")


@refuses(DYNAMODB, "GetItem", "a key of another schema", code=INVALID, source=API)
def a_read_with_another_key(aws: RunningAws) -> None:
    aws.client(DYNAMODB).get_item(TableName=table(aws), Key={"kind": {"S": "LEASE"}})


@refuses(DYNAMODB, "Query", "a malformed filter", code=INVALID, message="Invalid FilterExpression", source=EXPRESSIONS)
def a_query_with_a_malformed_filter(aws: RunningAws) -> None:
    aws.client(DYNAMODB).query(
        TableName=table(aws),
        KeyConditionExpression="kind = :kind",
        FilterExpression="(holder",
        ExpressionAttributeValues={":kind": {"S": "LEASE"}},
    )


@refuses(
    DYNAMODB,
    "Query",
    "no condition on the partition key",
    code=INVALID,
    message="Query condition missed key schema element",
    source=API,
)
def a_query_without_a_partition(aws: RunningAws) -> None:
    aws.client(DYNAMODB).query(
        TableName=table(aws), KeyConditionExpression="id = :id", ExpressionAttributeValues={":id": {"S": "a"}}
    )


@refuses(DYNAMODB, "BatchGetItem", "101 keys", code=INVALID, message="less than or equal to 100", source=QUOTAS)
def more_than_a_hundred_keys(aws: RunningAws) -> None:
    name = table(aws)
    keys = [{"kind": {"S": "INSTANCE"}, "id": {"S": f"i-{number}"}} for number in range(101)]
    aws.client(DYNAMODB).batch_get_item(RequestItems={name: {"Keys": keys}})


@refuses(DYNAMODB, "BatchGetItem", "one key twice", code=INVALID, message="contains duplicates", source=API)
def one_key_twice(aws: RunningAws) -> None:
    aws.client(DYNAMODB).batch_get_item(RequestItems={table(aws): {"Keys": [KEY, KEY]}})


@refuses(
    DYNAMODB,
    "TransactWriteItems",
    "two actions on one item",
    code=INVALID,
    message="Transaction request cannot include multiple operations on one item",
    source=f"{API}, TransactWriteItems",
)
def two_actions_on_one_item(aws: RunningAws) -> None:
    name = table(aws)
    check = {"ConditionCheck": {"TableName": name, "Key": KEY, "ConditionExpression": "attribute_not_exists(holder)"}}
    aws.client(DYNAMODB).transact_write_items(TransactItems=[check, {"Delete": {"TableName": name, "Key": KEY}}])


@refuses(
    DYNAMODB,
    "TransactWriteItems",
    "a condition that does not hold",
    code="TransactionCanceledException",
    source=f"{API}, errors",
)
def a_transaction_whose_condition_does_not_hold(aws: RunningAws) -> None:
    check = {"ConditionCheck": {"TableName": table(aws), "Key": KEY, "ConditionExpression": "attribute_exists(holder)"}}
    aws.client(DYNAMODB).transact_write_items(TransactItems=[check])


@refuses(
    DYNAMODB,
    "TransactWriteItems",
    "a malformed condition",
    code=INVALID,
    message="Invalid ConditionExpression",
    source=EXPRESSIONS,
)
def a_transaction_with_a_malformed_condition(aws: RunningAws) -> None:
    check = {"ConditionCheck": {"TableName": table(aws), "Key": KEY, "ConditionExpression": "attribute_exists holder"}}
    aws.client(DYNAMODB).transact_write_items(TransactItems=[check])


@refuses(DYNAMODB, "TransactWriteItems", "101 actions", code=INVALID, source=QUOTAS)
def more_than_a_hundred_actions(aws: RunningAws) -> None:
    name = table(aws)
    actions = [
        {"Delete": {"TableName": name, "Key": {"kind": {"S": "A"}, "id": {"S": str(number)}}}} for number in range(101)
    ]
    aws.client(DYNAMODB).transact_write_items(TransactItems=actions)


@refuses(DYNAMODB, "TransactWriteItems", "more than 4 MB", code=INVALID, source=QUOTAS)
def a_large_transaction(aws: RunningAws) -> None:
    name = table(aws)
    items = [{"kind": {"S": "A"}, "id": {"S": str(number)}, "long": {"S": "x" * 390_000}} for number in range(11)]
    aws.client(DYNAMODB).transact_write_items(
        TransactItems=[{"Put": {"TableName": name, "Item": item}} for item in items]
    )


not_modelled(
    DYNAMODB,
    "UpdateItem",
    "more writes a second than one partition takes (1,000)",
    code="ThrottlingException",
    source="DynamoDB developer guide, Best practices for designing partition keys",
    why="botocore repeats such a write; `joiner local knob faults/set` refuses any call",
)
not_modelled(
    DYNAMODB,
    "TransactWriteItems",
    "another transaction on one of the items at the same time",
    code="TransactionCanceledException",
    source="DynamoDB developer guide, Transaction conflict handling",
    why="one lock orders all requests here",
)
nothing_known(DYNAMODB, "AWS::DynamoDB::Table", why="a table on demand with two keys and a time to live")
