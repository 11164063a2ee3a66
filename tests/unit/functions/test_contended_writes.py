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
from joiner.adapters.ledger_items import LaunchRecord, LeaseLost
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn


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


def contended(cluster: SimulatedCluster, conflicts: int) -> tuple[Ledger, ContendedTable]:
    table = ContendedTable(cluster.ledger._client, conflicts)
    return Ledger(table, cluster.ledger._table), table


def test_a_ring_that_meets_a_launch_being_stored_is_counted_all_the_same(cluster: SimulatedCluster) -> None:
    ledger, table = contended(cluster, conflicts=2)

    assert ledger.ring().rings == 1
    assert table.asked == ["UpdateItem"] * 3


def test_a_wave_that_is_rung_while_it_is_written_is_rung_once(cluster: SimulatedCluster) -> None:
    cluster.ledger.begin_wave("up-1", arn("up-1"), ["claim-a"], now=10)
    ledger, _ = contended(cluster, conflicts=1)

    assert ledger.ring_wave("up-1", at=0.0) == ""
    assert [wave.rings for wave in cluster.ledger.waves()] == [1]


def test_launches_that_are_stored_at_once_are_all_stored(cluster: SimulatedCluster) -> None:
    number = cluster._take_lease("up-1")
    assert number is not None
    launch = LaunchRecord("l-1", "{}", "token", claims=("claim-a",), lease_number=number, execution=arn("up-1"))
    ledger, table = contended(cluster, conflicts=1)

    assert ledger.begin_launch(launch) == launch == cluster.ledger.launch("l-1")
    assert table.asked == ["TransactWriteItems"] * 2


def test_a_permanent_conflict_in_the_table_is_reported(cluster: SimulatedCluster) -> None:
    ledger, table = contended(cluster, conflicts=100)

    with pytest.raises(ClientError, match="TransactionConflictException"):
        ledger.ring()
    assert len(table.asked) == TRIES


def test_the_claims_of_all_instances_of_a_launch_are_recorded_in_one_request(cluster: SimulatedCluster) -> None:
    ledger, table = contended(cluster, conflicts=0)
    claims = {f"i-{number:03}": f"claim-{number:03}" for number in range(50)}

    assert ledger.pair_all(claims, "l-1") == claims
    assert table.asked == ["TransactWriteItems"]
    assert {each.instance: each.claim for each in cluster.ledger.pairings(claims).values()} == claims

    assert ledger.pair_all(claims, "l-1") == claims  # a second try


def test_an_instance_that_was_paired_keeps_its_claim_when_the_others_are_paired(cluster: SimulatedCluster) -> None:
    cluster.ledger.pair("i-1", "claim-b", "l-0")
    ledger, table = contended(cluster, conflicts=0)

    assert ledger.pair_all({"i-0": "claim-a", "i-1": "claim-c"}, "l-1") == {"i-0": "claim-a", "i-1": "claim-b"}
    assert table.asked == ["TransactWriteItems", "UpdateItem", "UpdateItem"]


def test_a_hundred_assignments_are_one_request(cluster: SimulatedCluster) -> None:
    ledger, table = contended(cluster, conflicts=0)
    wanted = {f"claim-{number:03}": {"class-a": number + 1} for number in range(150)}

    ledger.assign_all(wanted, 7)

    assert table.asked == ["TransactWriteItems"] * 2
    found = cluster.ledger.assignments()
    assert {name: dict(one.classes) for name, one in found.items()} == wanted
    assert {one.lease_number for one in found.values()} == {7}


def test_assignments_of_a_later_lease_are_not_overwritten(cluster: SimulatedCluster) -> None:
    cluster.ledger.assign("claim-b", {"class-b": 1}, 8)

    with pytest.raises(LeaseLost, match="claim-b was rewritten after lease 7"):
        cluster.ledger.assign_all({"claim-a": {"class-a": 1}, "claim-b": {"class-a": 1}}, 7)
    assert dict(cluster.ledger.assignments()["claim-b"].classes) == {"class-b": 1}
