"""The ledger against DynamoDB: every rule that keeps two executions from doing the same work is a conditional write."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner.adapters.dynamodb_table import ItemTooLarge
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import (
    DoorbellSecrets,
    LaunchRecord,
    Lease,
    LeaseLost,
    OfferingKey,
    Pairing,
    Unavailable,
)
from joiner.pools.pool_holds import PoolHold
from tests.local.running_aws import RunningAws
from tests.pairings import recorded_pairings
from tests.unit.functions.fake_dynamodb import FakeDynamoDb

pytestmark = pytest.mark.local

ME, OTHER = "arn:me", "arn:other"


class LedgerTable:
    """A table for this test alone, and the writes of the state machine to it."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        self.ledger = Ledger(client, name)

    def take_lease(self, holder: str, until: int = 100) -> int:
        """Take the lease as the state *Take the lease* does; return its number."""
        answer = self.client.update_item(
            TableName=self.name,
            Key={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}},
            UpdateExpression="SET holder = :me, leaseUntil = :until ADD leaseNumber :one",
            ExpressionAttributeValues={":me": {"S": holder}, ":until": {"N": str(until)}, ":one": {"N": "1"}},
            ReturnValues="ALL_NEW",
        )
        return int(answer["Attributes"]["leaseNumber"]["N"])

    def sleep(self, wave: str, token: str) -> None:
        """Write as the state *Await nodes* does."""
        self.client.update_item(
            TableName=self.name,
            Key={"kind": {"S": "WAVE"}, "id": {"S": wave}},
            UpdateExpression="SET #token = :token",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":token": {"S": token}},
        )


@pytest.fixture(params=["the local AWS", "the fake of tests of functions"])
def table(request: pytest.FixtureRequest, local_aws: RunningAws) -> Iterator[LedgerTable]:
    if request.param != "the local AWS":
        yield LedgerTable(FakeDynamoDb("memory"), "memory")
        return
    made = LedgerTable(local_aws.client("dynamodb"), local_aws.table("memory"))
    yield made
    made.client.delete_table(TableName=made.name)


def a_launch(lease_number: int, *, launch_id: str = "l-1", request: str = "{}") -> LaunchRecord:
    return LaunchRecord(
        launch_id,
        request,
        "token",
        claims=("claim-a", "claim-b"),
        lease_number=lease_number,
        execution=ME,
        details='{"pool":"default"}',
    )


def test_before_its_first_holder_the_lease_is_free(table: LedgerTable) -> None:
    assert table.ledger.lease() == Lease("", 0, 0, 0)


def test_rings_are_counted_and_the_ringer_sees_who_holds_the_lease(table: LedgerTable) -> None:
    assert table.ledger.ring() == Lease("", 0, 0, 1)
    table.take_lease(ME, until=100)
    rung = table.ledger.ring()

    assert rung == Lease(ME, 1, 100, 2)
    assert rung.is_held(now=99)
    assert not rung.is_held(now=100)


def test_only_the_holder_renews_its_lease(table: LedgerTable) -> None:
    number = table.take_lease(ME)

    assert table.ledger.renew(ME, number, 500).until == 500
    with pytest.raises(LeaseLost):
        table.ledger.renew(OTHER, number, 600)
    with pytest.raises(LeaseLost):
        table.ledger.renew(ME, number - 1, 600)


def test_a_dead_holder_loses_its_lease_and_a_new_one_does_not(table: LedgerTable) -> None:
    dead = table.take_lease(ME)
    assert table.ledger.break_lease(ME, dead)
    assert table.ledger.lease().holder == ""
    table.take_lease(OTHER)

    assert not table.ledger.break_lease(ME, dead)
    assert table.ledger.lease() == Lease(OTHER, 2, 100, 0)


def test_a_launch_is_stored_before_it_is_sent_and_the_first_bytes_stand(table: LedgerTable) -> None:
    number = table.take_lease(ME)
    first = table.ledger.begin_launch(a_launch(number, request='{"n":1}'))
    again = table.ledger.begin_launch(a_launch(number, request='{"n":2}'))

    assert first == a_launch(number, request='{"n":1}')
    assert again == first == table.ledger.launch("l-1")


def test_no_launch_begins_under_a_lease_that_moved_on(table: LedgerTable) -> None:
    number = table.take_lease(ME)
    table.take_lease(OTHER)

    with pytest.raises(LeaseLost):
        table.ledger.begin_launch(a_launch(number))
    assert table.ledger.launch("l-1") is None


def test_a_new_holder_goes_on_with_the_launch_of_a_dead_one(table: LedgerTable) -> None:
    table.ledger.begin_launch(a_launch(table.take_lease(ME), request='{"n":1}'))
    number = table.take_lease(OTHER)
    mine = LaunchRecord("l-1", '{"n":2}', "other token", claims=("claim-a",), lease_number=number, execution=OTHER)

    assert table.ledger.begin_launch(mine).request == '{"n":1}'


def test_the_first_outcome_of_a_launch_stands(table: LedgerTable) -> None:
    table.ledger.begin_launch(a_launch(table.take_lease(ME)))

    assert table.ledger.close_launch("l-1", "launched") == "launched"
    assert table.ledger.close_launch("l-1", "lost") == "launched"
    stored = table.ledger.launch("l-1")
    assert stored is not None
    assert stored.closed
    assert not stored.recorded


def test_an_item_above_400_kb_is_refused_and_a_smaller_outcome_closes_the_launch(table: LedgerTable) -> None:
    number = table.take_lease(ME)
    large = '"' + 250_000 * "x" + '"'
    with pytest.raises(ClientError):
        table.ledger.begin_launch(replace(a_launch(number, request=large), details=large))
    assert table.ledger.launch("l-1") is None
    began = table.ledger.begin_launch(replace(a_launch(number), details=large))

    with pytest.raises(ItemTooLarge, match="LAUNCH l-1"):
        table.ledger.close_launch("l-1", large)
    assert table.ledger.launch("l-1") == began, "it is open"

    assert table.ledger.close_launch("l-1", large, "{}") == large
    assert table.ledger.launch("l-1") == replace(began, closed=True, outcome=large, details="{}")


def test_a_launch_is_unrecorded_until_it_is_closed_and_recorded(table: LedgerTable) -> None:
    number = table.take_lease(ME)
    for launch_id in ("l-2", "l-1"):
        table.ledger.begin_launch(a_launch(number, launch_id=launch_id))
    table.ledger.mark_recorded("l-1", now=10)  # the launch is open: the write has no effect
    table.ledger.close_launch("l-2", "{}")
    assert [launch.id for launch in table.ledger.unrecorded_launches()] == ["l-1", "l-2"]

    table.ledger.mark_recorded("l-2", now=10)
    assert [launch.id for launch in table.ledger.unrecorded_launches()] == ["l-1"]
    kept = table.ledger.launch("l-2")
    assert kept is not None
    assert (kept.recorded, kept.outcome, kept.request, kept.details) == (True, "{}", "", "")


def test_the_first_pairing_decides_whose_an_instance_is(table: LedgerTable) -> None:
    assert table.ledger.pair("i-1", "claim-a", "l-1") == Pairing("i-1", "claim-a", "l-1")
    assert table.ledger.pair("i-1", "claim-b", "l-2") == Pairing("i-1", "claim-a", "l-1")
    table.ledger.pair("i-2", "claim-b", "l-1")

    assert table.ledger.pairings(["i-1", "i-2", "i-stranger"]) == {
        "i-1": Pairing("i-1", "claim-a", "l-1"),
        "i-2": Pairing("i-2", "claim-b", "l-1"),
    }
    assert len(recorded_pairings(table.client, table.name)) == 2


def test_more_instances_are_looked_up_than_one_request_takes(table: LedgerTable) -> None:
    for number in range(3):
        table.ledger.pair(f"i-{number * 100}", "claim", "l-1")

    assert sorted(table.ledger.pairings(f"i-{number}" for number in range(250))) == ["i-0", "i-100", "i-200"]


def test_an_assignment_is_rewritten_by_its_lease_or_a_later_one_only(table: LedgerTable) -> None:
    table.ledger.assign("claim-a", {"web": 2}, lease_number=4)
    table.ledger.assign("claim-a", {"web": 3, "db": 1}, lease_number=5)
    with pytest.raises(LeaseLost):
        table.ledger.assign("claim-a", {}, lease_number=4)

    (assignment,) = table.ledger.assignments().values()
    assert (assignment.claim, assignment.classes, assignment.version) == ("claim-a", {"web": 3, "db": 1}, 2)


def test_an_assignment_that_is_done_is_gone(table: LedgerTable) -> None:
    table.ledger.assign("claim-a", {"web": 2}, lease_number=4)
    table.ledger.unassign("claim-a")
    table.ledger.unassign("claim-a")

    assert table.ledger.assignments() == {}


def test_an_assignment_of_a_later_lease_is_not_dropped_by_an_earlier_one(table: LedgerTable) -> None:
    table.ledger.assign("claim-a", {"web": 2}, lease_number=5)
    table.ledger.unassign("claim-a", lease_number=4)
    assert set(table.ledger.assignments()) == {"claim-a"}

    table.ledger.unassign("claim-a", lease_number=5)
    table.ledger.unassign("claim-a", lease_number=5)
    assert table.ledger.assignments() == {}


def test_an_offering_is_short_until_its_time_and_the_longer_mark_stands(table: LedgerTable) -> None:
    offering = OfferingKey("spot", "m5.large", "us-east-1a")
    table.ledger.mark_unavailable(offering, until=200, reason="InsufficientInstanceCapacity")
    table.ledger.mark_unavailable(offering, until=150, reason="spot interruption")

    assert table.ledger.unavailable(now=199) == [Unavailable(offering, 200, "InsufficientInstanceCapacity")]
    assert table.ledger.unavailable(now=200) == []


def test_a_ring_takes_the_sleepers_token_once(table: LedgerTable) -> None:
    table.ledger.begin_wave("up-1", ME, ["claim-b", "claim-a"], now=10)
    assert table.ledger.ring_wave("up-1", at=30.5) == ""
    table.sleep("up-1", "task-token")

    assert table.ledger.ring_wave("up-1", at=30.5) == "task-token"
    assert table.ledger.ring_wave("up-1", at=30.5) == ""
    wave = table.ledger.wave("up-1")
    assert wave is not None
    assert (wave.rings, wave.rung_at, wave.execution) == (3, 30.5, ME)
    assert table.ledger.claims_of_wave("up-1") == ("claim-a", "claim-b")


def test_a_wave_that_is_written_again_keeps_its_rings(table: LedgerTable) -> None:
    table.ledger.begin_wave("up-1", ME, ["claim-a"], now=10)
    table.ledger.ring_wave("up-1", at=30.5)
    table.ledger.begin_wave("up-1", ME, ["claim-a", "claim-b"], now=20)

    (wave,) = table.ledger.waves()
    assert (wave.rings, wave.seen_at) == (1, 20)
    assert table.ledger.awaited_claims([wave]) == {"up-1": ("claim-a", "claim-b")}


def test_the_item_that_nodes_ring_is_one_write_unit_however_many_claims_the_wave_has(table: LedgerTable) -> None:
    names = tuple(f"default-{each:05}" for each in range(2_000))
    table.ledger.begin_wave("up-1", ME, names, now=10)
    table.ledger.ring_wave("up-1", at=30.5)
    key = {"kind": {"S": "WAVE"}, "id": {"S": "up-1"}}
    item = table.client.get_item(TableName=table.name, Key=key, ConsistentRead=True)["Item"]

    assert len(json.dumps(item)) < 1024
    assert table.ledger.claims_of_wave("up-1") == names


def test_a_wave_goes_with_its_claims(table: LedgerTable) -> None:
    table.ledger.begin_wave("up-1", ME, ["claim-a"], now=10)
    (wave,) = table.ledger.waves()
    table.ledger.end_wave("up-1")

    assert table.ledger.waves() == []
    assert table.ledger.claims_of_wave("up-1") == ()
    assert table.ledger.awaited_claims([wave]) == {"up-1": ()}


def test_a_wave_that_ended_is_neither_seen_nor_rung_nor_counted(table: LedgerTable) -> None:
    table.ledger.begin_wave("up-1", ME, ["claim-a"], now=10)
    seen = table.ledger.see_wave("up-1", now=30)
    assert seen is not None
    assert seen.seen_at == 30
    table.ledger.end_wave("up-1")

    assert table.ledger.see_wave("up-1", now=40) is None
    assert table.ledger.ring_wave("up-1", at=30.5) == ""
    table.ledger.count_placed("up-1", planned=1, placed=1)
    assert table.ledger.waves() == []


def test_placed_pods_add_up_over_the_checks_of_a_wave(table: LedgerTable) -> None:
    table.ledger.begin_wave("up-1", ME, ["claim-a"], now=10)
    table.ledger.count_placed("up-1", planned=3, placed=2)
    table.ledger.count_placed("up-1", planned=1, placed=1)

    wave = table.ledger.wave("up-1")
    assert wave is not None
    assert (wave.planned, wave.placed) == (4, 3)


def test_before_the_deployment_wrote_a_secret_the_doorbell_accepts_none(table: LedgerTable) -> None:
    assert table.ledger.doorbell_secrets() == DoorbellSecrets()
    table.client.put_item(
        TableName=table.name, Item={"kind": {"S": "DOORBELL"}, "id": {"S": "token"}, "value": {"S": "secret"}}
    )

    assert table.ledger.doorbell_secrets() == DoorbellSecrets(current="secret")


def test_a_pool_hold_is_counted_once_by_two_executions_and_deleted_with_its_count(table: LedgerTable) -> None:
    hold = PoolHold(
        pool="NodePool/default",
        class_key="c0ffee",
        device="nvidia.com/gpu",
        edition="uid-pool 3/1 d1",
        launched_at=100,
        failed_at=1000,
        failures=1,
        until=1060,
        claim="default-abc",
        cause="the NVIDIA device plug-in must run on the node",
    )
    replicas = replace(hold, class_key="", device="")
    assert table.ledger.put_pool_hold(hold, None) and table.ledger.put_pool_hold(replicas, None)
    assert table.ledger.pool_holds() == [replicas, hold]

    again = replace(hold, failed_at=2000, failures=2, until=2120)
    assert not table.ledger.put_pool_hold(again, None)
    assert table.ledger.put_pool_hold(again, hold)
    assert not table.ledger.put_pool_hold(replace(again, failed_at=2001), hold)
    assert table.ledger.pool_holds() == [replicas, again]

    table.ledger.forget_pool_hold(again)
    table.ledger.forget_pool_hold(again)
    assert table.ledger.pool_holds() == [replicas]
