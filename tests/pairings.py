"""All pairings of instances and claims in a ledger's table, for tests: functions read only those that they need."""

from typing import Any

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.ledger_items import Pairing
from joiner.item_keys import INSTANCE


def recorded_pairings(client: Any, table: str) -> list[Pairing]:
    """Return every pairing in the table."""
    return [Pairing.of(item) for item in DynamoTable(client, table)._query(INSTANCE)]
