"""EC2's messages about instances: other instances cost no calls, warnings launch a replacement before the drain, losses
are reported once.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.handle_interruption import handler as handle_interruption
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.executions import Executions
from joiner.adapters.ledger_items import OfferingKey
from joiner.adapters.recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.loading import FUNCTIONS
from tests.unit.functions.scale_up import SimulatedCluster

NOW = datetime(2026, 11, 21, 5, 17, 30, tzinfo=UTC)
BATCH: Mapping[str, Any] = json.loads((FUNCTIONS / "handle_interruption" / "event.json").read_text())
WARNED_AT = datetime(2026, 11, 21, 5, 17, 28, tzinfo=UTC)
MINE = "i-0123456789abcdef0"
RETIREMENT = "retire-20261121T051730-interrupted"
NEXT_SECOND = "retire-20261121T051731-interrupted"


class FakeRetirementStarts:
    """Executions by machine and name, in the order of their start; `ended` are names of those that have ended."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.inputs: dict[str, Any] = {}
        self.ended: set[str] = set()
        self.broken: set[str] = set()

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:
        if stateMachineArn in self.broken:
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "StartExecution")
        if name in self.ended or (name in self.inputs and self.inputs[name] != json.loads(input)):
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": name}}, "StartExecution")
        if name in self.inputs:
            return {"startDate": NOW}
        self.started.append((stateMachineArn, name))
        self.inputs[name] = json.loads(input)
        return {"startDate": NOW}


class QueueRun:
    """An interruption desk over a ledger, and the effects of the messages that it got."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        module = handle_interruption
        self.cluster = cluster
        table = (cluster.ledger._client, cluster.ledger._table)
        self.retirements, self.recommendations = Retirements(*table), Recommendations(*table)
        self.states = FakeRetirementStarts()
        memory, machines = (
            module.InterruptionRecords(cluster.ledger, self.retirements, self.recommendations),
            module.InterruptionMachines(scale_up="scale-up", retire="retire"),
        )
        self.handler = module.InterruptionQueue(
            memory, Executions(self.states), Ec2(cluster.ec2), cluster.pause, machines
        )
        cluster.ledger.pair(MINE, "default-a", "l-1")
        where = {"AvailabilityZone": "us-east-1a"}
        state = {"Name": "running"}
        cluster.ec2.instances[MINE] = {
            "InstanceId": MINE,
            "InstanceType": "m5.large",
            "InstanceLifecycle": "spot",
            "Placement": where,
            "State": state,
            "Tags": [],
        }

    def ended(self, state: str) -> None:
        """Make EC2 show the instance in this state, in which it runs no pods."""
        self.cluster.ec2.instances[MINE]["State"] = {"Name": state}

    def deliver(self, *bodies: Any) -> list[str]:
        records = [
            {"messageId": f"m-{index}", "body": body if isinstance(body, str) else json.dumps(body)}
            for index, body in enumerate(bodies)
        ]
        again: list[str] = self.handler.handle(records, lambda: NOW)
        return again


@pytest.fixture
def queue(cluster: SimulatedCluster) -> QueueRun:
    return QueueRun(cluster)


def warning(instance: str = MINE) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(BATCH["Records"][0]["body"])
    event["detail"]["instance-id"] = instance
    return event


def state_change(state: str, instance: str = MINE) -> dict[str, Any]:
    return {
        **warning(),
        "detail-type": "EC2 Instance State-change Notification",
        "detail": {"instance-id": instance, "state": state},
    }


def test_a_spot_warning_notes_the_deadline_starts_the_drain_and_rings_for_a_replacement(queue: QueueRun) -> None:
    assert queue.deliver(warning()) == []

    assert queue.states.started == [("retire", RETIREMENT), ("scale-up", "up-20261121T051730")]
    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.deadline, noted.owner) == (("spot",), int(WARNED_AT.timestamp()) + 120, "")
    assert noted.instance == MINE
    assert queue.states.inputs[RETIREMENT] == {
        "reason": "interruption",
        "claims": [],
        "noted": True,
        "notBefore": 0,
        "by": "m-0",
    }
    assert queue.cluster.ledger.lease().rings == 1


def test_the_offering_that_was_taken_back_is_not_asked_for_again_for_three_minutes(queue: QueueRun) -> None:
    queue.deliver(warning())

    (mark,) = queue.cluster.ledger.unavailable(int(NOW.timestamp()))
    assert (mark.offering, mark.until) == (OfferingKey("spot", "m5.large", "us-east-1a"), int(NOW.timestamp()) + 180)


def test_a_warning_about_a_claim_that_is_being_retired_only_shortens_its_deadline(queue: QueueRun) -> None:
    queue.retirements.begin("default-a", "arn:retire-1", "empty", int(NOW.timestamp()))

    assert queue.deliver(warning()) == []

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.deadline, noted.owner) == (
        ("empty", "spot"),
        int(WARNED_AT.timestamp()) + 120,
        "arn:retire-1",
    )
    assert queue.states.started == []


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down", "terminated"])
def test_an_instance_that_ends_without_a_request_is_retired_as_lost(queue: QueueRun, state: str) -> None:
    queue.ended(state)

    queue.deliver(state_change(state))

    assert [name for _, name in queue.states.started] == [RETIREMENT, "up-20261121T051730"]
    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.instance, noted.owner) == (("lost",), MINE, "")


def test_a_loss_whose_retirement_ends_during_the_check_is_no_loss_any_more(queue: QueueRun) -> None:
    queue.ended("terminated")

    def forgotten_meanwhile(_call: str, do: Callable[[], Any]) -> Any:
        queue.cluster.ledger.forget_instance(MINE)
        return do()

    queue.cluster.ec2.fault = forgotten_meanwhile
    assert queue.deliver(state_change("terminated")) == []
    assert queue.states.started == []
    assert queue.retirements.of("default-a") is None


def test_two_states_of_one_loss_start_one_retirement(queue: QueueRun) -> None:
    queue.ended("terminated")

    assert queue.deliver(state_change("shutting-down"), state_change("terminated")) == []

    assert queue.cluster.ec2.asked == ["DescribeInstances"]
    assert [name for machine, name in queue.states.started if machine == "retire"] == [RETIREMENT]


@pytest.mark.parametrize("state", ["stopped", "terminated"])
def test_a_late_event_of_an_instance_that_runs_again_is_no_loss(queue: QueueRun, state: str) -> None:
    assert queue.deliver(state_change(state)) == []

    assert (queue.states.started, queue.retirements.of("default-a")) == ([], None)


def test_an_instance_that_ec2_does_not_know_any_more_is_lost(queue: QueueRun) -> None:
    del queue.cluster.ec2.instances[MINE]

    queue.deliver(state_change("terminated"))

    assert ("retire", RETIREMENT) in queue.states.started


def test_the_loss_of_an_instance_is_recorded_for_the_execution_that_retires_its_claim(queue: QueueRun) -> None:
    queue.retirements.begin("default-a", "arn:retire-1", "deleted", int(NOW.timestamp()))
    queue.ended("terminated")

    queue.deliver(state_change("shutting-down"), state_change("terminated"))

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.owner, noted.deadline) == (("deleted", "lost"), "arn:retire-1", 0)
    assert queue.states.started == []
    assert queue.cluster.ledger.lease().rings == 0


@pytest.mark.parametrize("event", [warning(), state_change("terminated")], ids=["warning", "loss"])
def test_an_execution_without_a_pass_for_minutes_is_followed_by_another(queue: QueueRun, event: dict[str, Any]) -> None:
    queue.retirements.begin("default-a", "arn:retire-1", "deleted", int(NOW.timestamp()) - 181)
    queue.ended("terminated")

    queue.deliver(event)

    assert [machine for machine, _ in queue.states.started] == ["retire", "scale-up"]
    assert queue.retirements.begin("default-a", "arn:retire-2", "spot", int(NOW.timestamp())) is not None


def test_a_second_notice_after_a_retirement_without_effect_starts_another(queue: QueueRun) -> None:
    queue.deliver(warning())
    queue.states.ended.add(RETIREMENT)

    queue.deliver(warning())

    assert [name for machine, name in queue.states.started if machine == "retire"] == [RETIREMENT, NEXT_SECOND]


def test_a_warning_is_heeded_although_ec2_does_not_answer(queue: QueueRun) -> None:
    def throttled(operation: str, _: Any) -> Any:
        raise refused(operation, "RequestLimitExceeded", "slow down", 503)

    queue.cluster.ec2.fault = throttled

    assert queue.deliver(warning()) == []
    assert ("retire", RETIREMENT) in queue.states.started


def test_a_warning_starts_the_drain_although_no_scale_up_can_be_started(queue: QueueRun) -> None:
    queue.states.broken = {"scale-up"}

    assert queue.deliver(warning()) == []

    assert queue.states.started == [("retire", RETIREMENT)]


def test_strangers_cost_no_call_to_ec2_and_start_nothing(queue: QueueRun) -> None:
    queue.deliver(warning("i-stranger"), state_change("terminated", "i-stranger"))

    assert (queue.states.started, queue.cluster.ec2.asked) == ([], [])


def test_a_recommendation_is_recorded_for_the_sweep_and_starts_nothing(queue: QueueRun) -> None:
    queue.deliver({**warning(), "detail-type": "EC2 Instance Rebalance Recommendation"})

    assert (queue.states.started, queue.retirements.all()) == ([], {})
    assert queue.recommendations.since() == {"default-a": int(NOW.timestamp())}


MAINTENANCE_AT = datetime(2026, 11, 27, 4, tzinfo=UTC)


def health_event(*entities: str, **changes: Any) -> dict[str, Any]:
    return {
        "source": "aws.health",
        "detail-type": "AWS Health Event",
        "time": "2026-11-21T05:17:28Z",
        "detail": {
            "service": "EC2",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "eventTypeCategory": "scheduledChange",
            "statusCode": "upcoming",
            "startTime": "Fri, 27 Nov 2026 04:00:00 GMT",
            "affectedEntities": [{"entityValue": each} for each in entities],
            **changes,
        },
    }


@pytest.mark.parametrize(
    ("starts", "deadline"),
    [
        ("Fri, 27 Nov 2026 04:00:00 GMT", int(MAINTENANCE_AT.timestamp())),
        ("Fri, 20 Nov 2026 04:00:00 GMT", 0),
        ("soon", 0),
    ],
)
def test_a_scheduled_change_drains_the_node_until_its_start(queue: QueueRun, starts: str, deadline: int) -> None:
    assert queue.deliver(health_event(MINE, "i-stranger", startTime=starts)) == []

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.deadline, noted.instance) == (("maintenance",), deadline, MINE)
    assert queue.states.started == [("retire", RETIREMENT), ("scale-up", "up-20261121T051730")]
    assert queue.cluster.ledger.unavailable(int(NOW.timestamp())) == []


@pytest.mark.parametrize(
    "event",
    [
        health_event(MINE, statusCode="closed"),
        health_event(MINE, eventTypeCategory="accountNotification"),
        health_event(MINE, service="EBS"),
        health_event(MINE, affectedEntities=[{"entityValue": MINE, "status": "RESOLVED"}]),
        health_event("vol-1"),
    ],
)
def test_other_events_of_aws_health_change_nothing(queue: QueueRun, event: dict[str, Any]) -> None:
    assert queue.deliver(event) == []

    assert (queue.states.started, queue.retirements.all()) == ([], {})


def test_an_instance_of_an_interruptible_reservation_is_drained_until_its_termination(queue: QueueRun) -> None:
    event = {
        **warning(),
        "detail-type": "EC2 Capacity Reservation Instance Interruption Warning",
        "detail": {
            "instance-id": MINE,
            "instance-action": "terminate",
            "instance-termination-time": "2026-11-21T05:19:00Z",
        },
    }

    assert queue.deliver(event) == []

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.deadline) == (
        ("reservation",),
        int(datetime(2026, 11, 21, 5, 19, tzinfo=UTC).timestamp()),
    )
    assert ("retire", RETIREMENT) in queue.states.started


def block_ending(reservation: str, name: str = "Capacity Block Reservation Expiration Warning") -> dict[str, Any]:
    detail = {"capacity-reservation-id": reservation, "end-date": "2026-11-21T05:57:28Z"}
    return {**warning(), "detail-type": name, "detail": detail}


@pytest.mark.parametrize("name", ["Capacity Block Reservation Expiration Warning", "Capacity Block Expiration Warning"])
def test_the_end_of_a_capacity_block_drains_its_instances_within_ten_minutes(queue: QueueRun, name: str) -> None:
    queue.cluster.ec2.instances[MINE]["CapacityReservationId"] = "cr-1"

    assert queue.deliver(block_ending("cr-1", name), block_ending("cr-of-others", name)) == []

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (noted.reasons, noted.deadline) == (("reservation",), int(WARNED_AT.timestamp()) + 600)
    assert [machine for machine, _ in queue.states.started] == ["retire", "scale-up"]
    assert queue.cluster.ec2.asked == ["DescribeInstances"]


def test_the_end_of_a_block_comes_again_if_ec2_does_not_answer_and_stops_no_other_message(queue: QueueRun) -> None:
    def throttled(operation: str, _: Any) -> Any:
        raise refused(operation, "RequestLimitExceeded", "slow down", 503)

    queue.cluster.ec2.fault = throttled

    assert queue.deliver(block_ending("cr-1"), warning()) == ["m-0"]

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert noted.reasons == ("spot",)


def test_an_event_without_a_time_counts_from_now(queue: QueueRun) -> None:
    queue.deliver({key: value for key, value in warning().items() if key != "time"})

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert noted.deadline == int((NOW + timedelta(minutes=2)).timestamp())


def test_while_joiner_is_paused_a_shortage_is_remembered_and_nothing_starts(queue: QueueRun) -> None:
    queue.cluster.pause.paused = True

    assert queue.deliver(warning(), state_change("terminated")) == []

    assert queue.states.started == []
    assert queue.retirements.of("default-a") is None
    assert len(queue.cluster.ledger.unavailable(int(NOW.timestamp()))) == 1


@pytest.mark.parametrize("body", ["rubbish", "{}", '{"source": "aws.ec2"}', "[1]"])
def test_what_cannot_be_read_is_dropped_and_keeps_no_other(queue: QueueRun, body: str) -> None:
    assert queue.deliver(body, warning()) == []

    assert len(queue.states.started) == 2


def test_what_could_not_be_handled_comes_again(queue: QueueRun) -> None:
    queue.states.broken = {"retire", "scale-up"}
    assert queue.deliver(warning("i-stranger"), warning()) == ["m-1"]

    queue.states.broken = set()
    assert queue.deliver(warning()) == []
    assert [name for _, name in queue.states.started] == [RETIREMENT, "up-20261121T051730"]
