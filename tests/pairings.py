"""All pairings of instances and claims in a ledger's table, for tests: functions read only those that they need."""

from typing import Any

from joiner.adapters.ledger_items import Pairing
from joiner.item_keys import INSTANCE


def recorded_pairings(client: Any, table: str) -> list[Pairing]:
    """Return every pairing in the table."""
    pages = client.get_paginator("query").paginate(
        TableName=table,
        ConsistentRead=True,
        KeyConditionExpression="kind = :kind",
        ExpressionAttributeValues={":kind": {"S": INSTANCE}},
    )
    return [Pairing.of(item) for page in pages for item in page["Items"]]
