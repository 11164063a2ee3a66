"""Writes that conflict with a transaction on the same item are sent again: without it a ring would be lost, and its pod
would wait for the sweep.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner.adapters.dynamodb_table import TRIES
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord
from tests.unit.functions.scale_up import SimulatedCluster, arn


@dataclass
class ContendedTable:
    """A client of DynamoDB whose first writes conflict with a transaction, with the error of DynamoDB."""

    client: Any
    conflicts: int
    asked: list[str] = field(default_factory=list)

    def update_item(self, **asked: Any) -> Any:
        return self._do("UpdateItem", "TransactionConflictException", self.client.update_item, asked)

    def transact_write_items(self, **asked: Any) -> Any:
        return self._do("TransactWriteItems", "TransactionCanceledException", self.client.transact_write_items, asked)

    def get_item(self, **asked: Any) -> Any:
        return self.client.get_item(**asked)

    def _do(self, operation: str, code: str, do: Callable[..., Any], asked: dict[str, Any]) -> Any:
        self.asked.append(operation)
        if len(self.asked) > self.conflicts:
            return do(**asked)
        answer: Any = {
            "Error": {"Code": code},
            "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
        }
        raise ClientError(answer, operation)


def contended(world: SimulatedCluster, conflicts: int) -> tuple[Ledger, ContendedTable]:
    table = ContendedTable(world.ledger._client, conflicts)
    return Ledger(table, world.ledger._table), table


def test_a_ring_that_meets_a_launch_being_stored_is_counted_all_the_same(world: SimulatedCluster) -> None:
    ledger, table = contended(world, conflicts=2)

    assert ledger.ring().rings == 1
    assert table.asked == ["UpdateItem"] * 3


def test_a_wave_that_is_rung_while_it_is_written_is_rung_once(world: SimulatedCluster) -> None:
    world.ledger.begin_wave("up-1", arn("up-1"), ["claim-a"], now=10)
    ledger, _ = contended(world, conflicts=1)

    assert ledger.ring_wave("up-1", at=0.0) == ""
    assert [wave.rings for wave in world.ledger.waves()] == [1]


def test_launches_that_are_stored_at_once_are_all_stored(world: SimulatedCluster) -> None:
    number = world._take_lease("up-1")
    assert number is not None
    launch = LaunchRecord("l-1", "{}", "token", ("claim-a",), number, arn("up-1"))
    ledger, table = contended(world, conflicts=1)

    assert ledger.begin_launch(launch) == launch == world.ledger.launch("l-1")
    assert table.asked == ["TransactWriteItems"] * 2


def test_a_permanent_conflict_in_the_table_is_reported(world: SimulatedCluster) -> None:
    ledger, table = contended(world, conflicts=100)

    with pytest.raises(ClientError, match="TransactionConflictException"):
        ledger.ring()
    assert len(table.asked) == TRIES
