"""EC2's messages about instances: other instances cost no calls, warnings launch a replacement before the drain, losses
are reported once.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.adapters.ledger_items import OfferingKey
from tests.unit.functions.delivered_interruptions import MINE, NOW, RETIREMENT, QueueRun, state_change, warning
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.simulated_cluster import SimulatedCluster

WARNED_AT = datetime(2026, 11, 21, 5, 17, 28, tzinfo=UTC)
NEXT_SECOND = "retire-20261121T051731-interrupted"


@pytest.fixture
def queue(cluster: SimulatedCluster) -> QueueRun:
    return QueueRun(cluster)


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


@pytest.mark.parametrize("event", [warning(), state_change("terminated")], ids=["warning", "loss"])
@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "ABORTED", "ExecutionDoesNotExist"])
def test_an_execution_that_has_ended_is_followed_by_another_at_once(
    queue: QueueRun, event: dict[str, Any], status: str
) -> None:
    """An execution that ends while its nodes are blocked keeps its claims, and its last check was seconds ago."""
    queue.retirements.begin("default-a", "arn:retire-1", "deleted", int(NOW.timestamp()) - 10)
    queue.states.statuses["arn:retire-1"] = status
    queue.ended("terminated")

    assert queue.deliver(event) == []

    assert [machine for machine, _ in queue.states.started] == ["retire", "scale-up"]
    assert queue.retirements.begin("default-a", "arn:retire-2", "spot", int(NOW.timestamp())) is not None


@pytest.mark.parametrize("event", [warning(), state_change("terminated")], ids=["warning", "loss"])
@pytest.mark.parametrize("status", ["RUNNING", "ThrottlingException"])
def test_an_execution_that_may_run_keeps_its_claim(queue: QueueRun, event: dict[str, Any], status: str) -> None:
    queue.retirements.begin("default-a", "arn:retire-1", "deleted", int(NOW.timestamp()) - 10)
    queue.states.statuses["arn:retire-1"] = status
    queue.ended("terminated")

    assert queue.deliver(event) == []

    noted = queue.retirements.of("default-a")
    assert noted is not None
    assert (len(noted.reasons), noted.owner, queue.states.started) == (2, "arn:retire-1", [])


def test_the_owner_of_several_claims_is_read_once_in_a_batch(queue: QueueRun) -> None:
    for name in ("a", "b", "c"):
        queue.cluster.ledger.pair(f"i-{name}", f"default-{name}", "l-1")
        queue.retirements.begin(f"default-{name}", "arn:retire-1", "deleted", int(NOW.timestamp()))

    queue.deliver(*(warning(f"i-{name}") for name in ("a", "b", "c")))

    assert queue.states.asked == {"arn:retire-1": 1}


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


def test_messages_about_strangers_are_logged_once_for_a_batch_with_the_reason(
    queue: QueueRun, caplog: pytest.LogCaptureFixture
) -> None:
    ended = (state_change("terminated", f"i-{number:02}") for number in range(11))
    queue.deliver(warning("i-stranger"), *ended, warning())

    (line,) = (each for each in caplog.records if "ignored" in each.getMessage())
    assert "this cluster's table does not contain their instances" in line.getMessage()
    assert (line.levelname, vars(line)["count"]) == ("INFO", 12)
    assert vars(line)["messages"] == {"spot interruption": 1, "state change": 11}
    assert vars(line)["instances"] == [f"i-{number:02}" for number in range(10)]


def test_messages_about_known_instances_log_nothing_about_strangers(
    queue: QueueRun, caplog: pytest.LogCaptureFixture
) -> None:
    queue.deliver(warning())

    assert not any("ignored" in each.getMessage() for each in caplog.records)


def test_an_instance_whose_record_cannot_be_read_is_logged_as_an_error(
    queue: QueueRun, caplog: pytest.LogCaptureFixture
) -> None:
    queue.cluster.machine._update("INSTANCE", MINE, "SET claim = :claim", {":claim": 7})

    assert queue.deliver(warning()) == []

    (line,) = (each for each in caplog.records if "ignored" in each.getMessage())
    assert (line.levelname, vars(line)["instances"]) == ("ERROR", [MINE])


def test_a_recommendation_is_recorded_for_the_sweep_and_starts_nothing(queue: QueueRun) -> None:
    queue.deliver({**warning(), "detail-type": "EC2 Instance Rebalance Recommendation"})

    assert (queue.states.started, queue.retirements.all()) == ([], {})
    assert queue.recommendations.since() == {"default-a": int(NOW.timestamp())}


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
