"""Hundreds of interruptions at once: each is noted, few retirements are started, and one of them reads each note in
time.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from functions.handle_interruption import handler as handle_interruption
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.executions import ATTEMPTS, Executions
from joiner.adapters.interruption_records import InterruptionWarnings
from joiner.adapters.ledger_items import Retirement as Noted
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from joiner.item_keys import INTERRUPTED, LEASE, UNAVAILABLE
from joiner.lifecycle.interrupted_claims import take_noted_claims
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from tests.unit.functions.call_faults import Fault, Trouble
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.simulated_cluster import SimulatedCluster

STORM = datetime(2026, 11, 21, 5, 17, 30, 100_000, tzinfo=UTC)
BATCH = 10


class FakeLongRetirements:
    """Executions that do not end, as a drain: a start with the same name and input succeeds and starts nothing."""

    def __init__(self) -> None:
        self.now = STORM
        self.inputs: dict[tuple[str, str], dict[str, Any]] = {}
        self.began: dict[tuple[str, str], datetime] = {}
        self.asked: Counter[str] = Counter()
        self.broken: set[str] = set()

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:
        self.asked[stateMachineArn] += 1
        key, request = (stateMachineArn, name), json.loads(input)
        if stateMachineArn in self.broken:
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "StartExecution")
        if self.inputs.setdefault(key, request) != request:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": name}}, "StartExecution")
        return {"startDate": self.began.setdefault(key, self.now)}

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:
        self.asked[executionArn] += 1
        return {"status": "RUNNING"}

    @property
    def retirements(self) -> dict[str, float]:
        """Return when each retirement reads the notes (epoch seconds), by its name."""
        return {
            name: max(self.began[machine, name].timestamp(), request["notBefore"])
            for (machine, name), request in self.inputs.items()
            if machine == "retire"
        }


class Storm:
    """An interruption desk over the ledger of a cluster with many spot nodes."""

    def __init__(self, cluster: SimulatedCluster, nodes: int) -> None:
        module = handle_interruption
        self.cluster, self.nodes, self.states = cluster, nodes, FakeLongRetirements()
        table = (cluster.ledger._client, cluster.ledger._table)
        memory = module.InterruptionRecords(
            cluster.ledger, Retirements(*table), Recommendations(*table), InterruptionWarnings(*table)
        )
        self.desk = module.InterruptionQueue(
            memory,
            Executions(self.states),
            Ec2(cluster.ec2),
            cluster.pause,
            module.InterruptionMachines("scale-up", "retire"),
        )
        for number in range(nodes):
            cluster.machine.pair(f"i-{number:04}", f"default-{number:04}", "l-1")
            cluster.ec2.instances[f"i-{number:04}"] = {
                "InstanceId": f"i-{number:04}",
                "InstanceType": "m5.large",
                "InstanceLifecycle": "spot",
                "Placement": {"AvailabilityZone": "us-east-1a"},
                "State": {"Name": "running"},
                "Tags": [],
            }

    def deliver(self, numbers: range | list[int], at: datetime) -> list[str]:
        """Invoke the function once; return the messages that are delivered again."""
        self.states.now = at
        event = {
            "source": "aws.ec2",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "time": f"{STORM:%Y-%m-%dT%H:%M:%SZ}",
        }
        records = [
            {"messageId": f"m-{number}", "body": json.dumps({**event, "detail": {"instance-id": f"i-{number:04}"}})}
            for number in numbers
        ]
        again: list[str] = self.desk.handle(records, lambda: at)
        return again

    @property
    def noted(self) -> Mapping[str, Noted]:
        return Retirements(self.cluster.machine._client, self.cluster.machine._table).all()


@contextmanager
def calls_counted(cluster: SimulatedCluster) -> Iterator[Counter[str]]:
    """Count the calls of the ledger's client, by operation; updates and reads with the kind of their item."""
    counted: Counter[str] = Counter()
    asked = cluster.machine._client.asked
    before = len(asked)
    yield counted
    counted.update(" ".join(filter(None, call)) for call in asked[before:])


@pytest.mark.parametrize("warnings", [150, pytest.param(500, marks=pytest.mark.long("150 warnings"))])
def test_warnings_of_seven_seconds_start_eight_retirements_at_most_and_each_note_is_read_within_two_seconds(
    cluster: SimulatedCluster, warnings: int
) -> None:
    storm, waits, batches = Storm(cluster, warnings), [], warnings // BATCH
    for batch in range(batches):
        at = STORM + timedelta(seconds=batch * 7 / batches)
        assert storm.deliver(range(batch * BATCH, (batch + 1) * BATCH), at) == []
        waits.append(min(read - at.timestamp() for read in storm.states.retirements.values() if read >= at.timestamp()))

    assert len(storm.states.retirements) <= 8
    assert waits[0] == 0  # no message waits if there are no others
    assert max(waits) < 2
    deadline = int((STORM + timedelta(minutes=2)).timestamp())
    assert {claim: (one.reasons, one.deadline, one.instance) for claim, one in storm.noted.items()} == {
        f"default-{number:04}": (("spot",), deadline, f"i-{number:04}") for number in range(warnings)
    }


@pytest.mark.parametrize("messages", [1, BATCH])
def test_a_batch_asks_once_whatever_its_size(cluster: SimulatedCluster, messages: int) -> None:
    storm = Storm(cluster, BATCH)
    with calls_counted(cluster) as ledger:
        storm.deliver(range(messages), STORM)

    per_claim = {"GetItem RETIREMENT": messages, "UpdateItem RETIREMENT": 2 * messages}
    per_type = {f"UpdateItem {UNAVAILABLE}": 1, f"UpdateItem {INTERRUPTED}": 1}
    assert ledger == {"BatchGetItem": 1, f"UpdateItem {LEASE}": 1, **per_type, **per_claim}
    assert cluster.ec2.asked == ["DescribeInstances"]
    assert storm.states.asked == {"retire": 1, "scale-up": 1}


def test_losses_of_a_batch_are_looked_up_once(cluster: SimulatedCluster) -> None:
    storm = Storm(cluster, BATCH)
    for each in cluster.ec2.instances.values():
        each["State"] = {"Name": "terminated"}
    event = {"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification"}
    records = [
        {
            "messageId": f"m-{n}",
            "body": json.dumps({**event, "detail": {"instance-id": f"i-{n:04}", "state": "terminated"}}),
        }
        for n in range(BATCH)
    ]
    with calls_counted(cluster) as ledger:
        assert storm.desk.handle(records, lambda: STORM) == []

    assert ledger["BatchGetItem"] == 2  # before the call of EC2, and after it
    assert cluster.ec2.asked == ["DescribeInstances"]
    assert storm.states.asked == {"retire": 1, "scale-up": 1}
    assert {one.reasons for one in storm.noted.values()} == {("lost",)}


# Failures


def test_one_message_that_cannot_be_noted_comes_again_alone(cluster: SimulatedCluster) -> None:
    storm = Storm(cluster, 3)
    table = storm.desk._retirements._table
    with Trouble(cluster, Fault.REFUSED, 4) as trouble:  # the second claim's first call
        storm.desk._retirements = Retirements(cluster.ledger._client, table)
        assert storm.deliver(range(3), STORM) == ["m-1"]

    assert trouble.calls[4] == "update_item"
    assert sorted(storm.noted) == ["default-0000", "default-0002"]
    assert list(storm.states.retirements) == ["retire-20261121T051730-interrupted"]


def test_if_no_retirement_starts_all_messages_that_need_one_come_again(cluster: SimulatedCluster) -> None:
    storm = Storm(cluster, 3)
    cluster.machine.pair("i-9999", "default-9999", "l-1")
    attended = Retirements(cluster.machine._client, cluster.machine._table)
    attended.begin("default-0001", "arn:retire-1", "deleted", int(STORM.timestamp()))
    storm.states.broken = {"retire"}

    assert storm.deliver([0, 1, 2], STORM) == ["m-0", "m-2"]
    assert storm.states.asked == {"retire": 1, "arn:retire-1": 1}
    assert len(storm.noted) == 3

    storm.states.broken = set()
    assert storm.deliver([0, 2], STORM + timedelta(seconds=30)) == []
    assert list(storm.states.retirements) == ["retire-20261121T051800-interrupted"]


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_fails_when_its_messages_came_again_all_is_noted_and_read(
    make_cluster: MakeCluster, fault: Fault
) -> None:
    """A failed invocation returns all its messages to the queue, which delivers them again half a minute later."""
    later = STORM + timedelta(seconds=30)

    def delivered(number: int) -> tuple[Storm, Trouble, list[int]]:
        storm = Storm(make_cluster(), 2)
        with Trouble(storm.cluster, fault if number >= 0 else None, number) as trouble:
            storm.desk._retirements = Retirements(storm.cluster.ledger._client, storm.cluster.ledger._table)
            try:
                again = [int(message.removeprefix("m-")) for message in storm.deliver(range(2), STORM)]
            except (BotoCoreError, ClientError):
                again = [0, 1]
        storm.desk._retirements = Retirements(storm.cluster.machine._client, storm.cluster.machine._table)
        return storm, trouble, again

    _, recorded, _ = delivered(-1)
    assert len(recorded.calls) > 8
    wrong = []
    for number in range(len(recorded.calls)):
        storm, _, again = delivered(number)
        if again:
            assert storm.deliver(again, later) == []
        read = max(storm.states.retirements.values(), default=0.0)
        unread = [claim for claim, one in storm.noted.items() if one.noted_at > read]
        deadlines = {claim: one.deadline for claim, one in storm.noted.items()}
        if unread or len(deadlines) != 2 or not all(deadlines.values()):
            wrong.append(f"{number} {recorded.calls[number]}: {deadlines}, unread {unread}")

    assert wrong == []


# Names


def start(states: FakeLongRetirements, by: str, at: datetime) -> str:
    states.now = at
    return Executions(states).start_retirement_of_interrupted("retire", at, by)


def test_the_first_of_a_second_reads_at_once_and_the_others_share_the_next_second() -> None:
    states = FakeLongRetirements()

    names = [start(states, f"m-{number}", STORM) for number in range(4)]

    assert names == ["retire-20261121T051730-interrupted"] + 3 * ["retire-20261121T051731-interrupted"]
    assert states.retirements == {names[0]: STORM.timestamp(), names[1]: STORM.replace(microsecond=0).timestamp() + 1}
    assert states.inputs["retire", names[1]] == {
        "reason": "interruption",
        "claims": [],
        "noted": True,
        "notBefore": int(STORM.timestamp()) + 1,
        "by": "",
    }


def test_a_start_that_is_sent_twice_is_one() -> None:
    states = FakeLongRetirements()

    assert start(states, "m-0", STORM) == start(states, "m-0", STORM)
    assert len(states.retirements) == 1


def test_one_that_waited_for_its_second_is_not_trusted_once_that_second_has_come() -> None:
    states = FakeLongRetirements()
    for number in range(2):
        start(states, f"m-{number}", STORM)

    assert start(states, "m-2", STORM + timedelta(seconds=1)) == "retire-20261121T051732-interrupted"


def test_if_all_names_are_taken_it_is_left_to_the_sweep() -> None:
    states = FakeLongRetirements()
    for second in range(ATTEMPTS):
        name = f"retire-{STORM + timedelta(seconds=second):%Y%m%dT%H%M%S}-interrupted"
        states.inputs["retire", name] = {"of": "something else"}

    assert start(states, "m-0", STORM) == ""


def test_another_error_is_no_name_that_is_taken() -> None:
    states = FakeLongRetirements()
    states.broken = {"retire"}

    with pytest.raises(ClientError, match="ServiceUnavailable"):
        start(states, "m-0", STORM)


# Notes that Begin retirement reads

NOW = int(STORM.timestamp())
ME = "arn:retire-me"


def read(*noted: Noted) -> list[RetirementRequest]:
    return take_noted_claims(noted, owner=ME, now=STORM)


def note(claim: str, *reasons: str, **more: Any) -> Noted:
    return Noted(claim, reasons=reasons, **{"noted_at": NOW, "instance": f"i-{claim}", **more})


def test_what_was_noted_is_asked_for_with_its_most_urgent_reason_lost_first_then_by_deadline() -> None:
    noted = [
        note("late", "spot", deadline=NOW + 110),
        note("never", "spot"),
        note("soon", "empty", "spot", deadline=NOW + 30),
        note("lost", "lost", "spot", deadline=NOW + 90),
    ]

    assert read(*noted) == [
        RetirementRequest("lost", RetirementReason.LOST, "i-lost"),
        RetirementRequest("soon", RetirementReason.SPOT, "i-soon"),
        RetirementRequest("late", RetirementReason.SPOT, "i-late"),
        RetirementRequest("never", RetirementReason.SPOT, "i-never"),
    ]


@pytest.mark.parametrize(
    ("one", "taken"),
    [
        (note("a", "empty", "deleted"), False),
        (note("a", "spot", owner="arn:retire-1", seen_at=NOW - 60), False),
        (note("a", "spot", owner="arn:retire-1", seen_at=NOW - 181), True),
        (note("a", "spot", owner=ME, seen_at=NOW), True),
        (note("a", "spot", back_off_until=NOW + 60), False),
        (note("a", "spot", back_off_until=NOW + 60, deadline=NOW + 120), True),
        (note("a", "lost", noted_at=NOW - 301), False),
        (note("a", "lost", noted_at=NOW - 299), True),
    ],
    ids=["no interruption", "attended", "left alone", "my own", "rests", "deadline is near", "old note", "fresh note"],
)
def test_what_is_read_of_one_note(one: Noted, taken: bool) -> None:
    assert [each.claim for each in read(one)] == (["a"] if taken else [])


def test_a_note_ends_the_rest_of_a_claim(cluster: SimulatedCluster) -> None:
    retirements = Retirements(cluster.ledger._client, cluster.ledger._table)
    retirements.begin("a", "arn:retire-1", "deleted", NOW - 60)
    retirements.disown("a", "arn:retire-1", NOW + 600)

    retirements.hurry("a", "spot", NOW + 3600, NOW, instance="i-a")

    assert read(*retirements.all().values()) == [RetirementRequest("a", RetirementReason.SPOT, "i-a")]
