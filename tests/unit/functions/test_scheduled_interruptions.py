"""Events that announce the end of an instance: changes that AWS Health schedules, reservations, Capacity Blocks."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.functions.delivered_interruptions import MINE, NOW, RETIREMENT, QueueRun, warning
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.test_handle_interruption import WARNED_AT


@pytest.fixture
def queue(cluster: SimulatedCluster) -> QueueRun:
    return QueueRun(cluster)


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
