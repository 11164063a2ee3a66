"""EventBridge Scheduler: schedules that are due, run by hand, or held; and a target that does not exist."""

import datetime as dt
import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.scheduler.schedule_expressions import InvalidExpression, parse
from tests.local.running_aws import RunningAws, eventually

MACHINE = {"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}


class Target:
    """A queue that schedules send to, and their role."""

    def __init__(self, aws: RunningAws) -> None:
        self.aws, self.role = aws, aws.role("scheduler.amazonaws.com")
        self.url, self.arn = aws.queue()

    def schedule(self, expression: str, **settings: Any) -> str:
        """Create a schedule that sends to the queue; return its name."""
        name = self.aws.fresh("schedule")
        target = {"Arn": self.arn, "RoleArn": self.role, **settings.pop("target", {})}
        self.aws.client("scheduler").create_schedule(
            Name=name, ScheduleExpression=expression, FlexibleTimeWindow={"Mode": "OFF"}, Target=target, **settings
        )
        return name

    def messages(self, url: str | None = None) -> list[dict[str, Any]]:
        sqs = self.aws.client("sqs")
        found: list[dict[str, Any]] = sqs.receive_message(
            QueueUrl=url or self.url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=0
        ).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url or self.url, ReceiptHandle=message["ReceiptHandle"])
        return found


@pytest.fixture
def target(local_aws: RunningAws) -> Target:
    return Target(local_aws)


def in_seconds(seconds: float) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)).strftime("at(%Y-%m-%dT%H:%M:%S)")


def test_a_rate_fires_as_soon_as_it_exists_with_its_input(target: Target) -> None:
    target.schedule("rate(1 minute)", target={"Input": '{"look": "everywhere"}'})

    [message] = eventually(target.messages)
    assert json.loads(message["Body"]) == {"look": "everywhere"}


def test_a_schedule_without_input_sends_a_scheduled_event_and_placeholders_are_filled_in(target: Target) -> None:
    plain = target.schedule("rate(1 hour)")
    named = target.schedule("rate(1 hour)", target={"Input": '{"by": "<aws.scheduler.schedule-arn>"}'})

    bodies: list[dict[str, Any]] = []

    def both() -> bool:
        bodies.extend(json.loads(message["Body"]) for message in target.messages())
        return len(bodies) == 2

    eventually(both)
    event = next(body for body in bodies if "by" not in body)
    assert (event["detail-type"], event["source"]) == ("Scheduled Event", "aws.scheduler")
    assert event["resources"] == [f"arn:aws:scheduler:us-east-1:123456789012:schedule/default/{plain}"]
    assert next(body for body in bodies if "by" in body)["by"].endswith(named)


def test_a_time_is_met_once_and_its_schedule_can_go_with_it(target: Target) -> None:
    name = target.schedule(in_seconds(4), ActionAfterCompletion="DELETE")

    assert target.messages() == []
    assert len(eventually(target.messages)) == 1
    with pytest.raises(ClientError, match="does not exist"):
        target.aws.client("scheduler").get_schedule(Name=name)


def test_a_disabled_schedule_fires_by_hand_only(target: Target) -> None:
    name = target.schedule("rate(1 minute)", State="DISABLED")
    time.sleep(0.6)

    assert target.messages() == []
    target.aws.knob("schedules/fire", name=name)
    assert len(eventually(target.messages)) == 1


def test_held_schedules_wait_for_the_hand(target: Target) -> None:
    target.aws.knob("schedules/hold", held=True)
    try:
        name = target.schedule("rate(1 minute)")
        time.sleep(0.6)
        assert target.messages() == []
        target.aws.knob("schedules/fire", name=name, group="default")
        assert len(eventually(target.messages)) == 1
    finally:
        target.aws.knob("schedules/hold", held=False)
    listed = {schedule["name"]: schedule for schedule in target.aws.knob("schedules")["schedules"]}
    assert 0 < listed[name]["next"] - time.time() <= 60


@pytest.mark.parametrize("kind", ["STANDARD", "EXPRESS"])
def test_firing_starts_a_state_machine_and_returns_its_execution(local_aws: RunningAws, kind: str) -> None:
    states, role = local_aws.client("stepfunctions"), local_aws.role("states.amazonaws.com")
    machine = states.create_state_machine(
        name=local_aws.fresh("sweep"), definition=json.dumps(MACHINE), roleArn=role, type=kind
    )
    target = Target(local_aws)
    name = target.schedule(
        "rate(1 hour)", State="DISABLED", target={"Arn": machine["stateMachineArn"], "Input": '{"schema": 1}'}
    )

    fired = local_aws.knob("schedules/fire", name=name)
    assert fired["input"] == '{"schema": 1}'
    assert machine["stateMachineArn"].rpartition(":")[2] in fired["execution"]


def test_firing_what_does_not_exist_lists_what_does(target: Target) -> None:
    name = target.schedule("rate(1 hour)", State="DISABLED")

    with pytest.raises(AssertionError, match=f"there is no schedule default/nobody, but .*default/{name}"):
        target.aws.knob("schedules/fire", name="nobody")


def test_an_undeliverable_invocation_is_retried_and_then_a_dead_letter(local_aws: RunningAws, target: Target) -> None:
    letters, arn = local_aws.queue()
    missing = f"{target.arn}-missing"
    settings = {
        "Arn": missing,
        "Input": "x",
        "RetryPolicy": {"MaximumRetryAttempts": 1},
        "DeadLetterConfig": {"Arn": arn},
    }
    name = target.schedule("rate(1 hour)", target=settings)

    [letter] = eventually(lambda: target.messages(letters))
    attributes = {key: value["StringValue"] for key, value in letter["MessageAttributes"].items()}
    assert letter["Body"] == "x"
    assert (attributes["ERROR_CODE"], attributes["RETRY_ATTEMPTS"], attributes["TARGET_ARN"]) == (
        "NO_RESOURCE",
        "1",
        missing,
    )
    assert attributes["SCHEDULE_ARN"].endswith(name)


@pytest.mark.parametrize(
    ("expression", "settings", "complaint"),
    [
        ("every minute", {}, "Invalid Schedule Expression every minute"),
        ("rate(0 minutes)", {}, "Invalid Schedule Expression"),
        ("cron(0 9 * * * *)", {}, "one of day-of-month and day-of-week must be"),
        ("cron(0 9 ? * MON *)", {"ScheduleExpressionTimezone": "Mars/Olympus"}, "timezone Mars/Olympus"),
        (
            "rate(1 hour)",
            {"target": {"Arn": "arn:aws:kinesis:us-east-1:123456789012:stream/s"}},
            "reach lambda, states, sqs",
        ),
        (
            "rate(1 hour)",
            {"target": {"RoleArn": "arn:aws:iam::123456789012:role/nobody"}},
            "must allow AWS EventBridge Scheduler to assume",
        ),
    ],
)
def test_a_schedule_that_could_never_fire_is_refused(
    target: Target, expression: str, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ClientError, match=complaint):
        target.schedule(expression, **settings)


@pytest.mark.parametrize(
    ("expression", "zone", "now", "expected"),
    [
        ("cron(0 9 * * ? *)", "UTC", "2026-11-21T09:00:00", "2026-11-22T09:00:00"),
        ("cron(0/15 * * * ? *)", "UTC", "2026-11-21T09:07:00", "2026-11-21T09:15:00"),
        ("cron(0 9 ? * MON-FRI *)", "America/New_York", "2026-11-20T15:00:00", "2026-11-23T14:00:00"),
        ("cron(0 0 L * ? *)", "UTC", "2027-02-01T00:00:00", "2027-02-28T00:00:00"),
        ("cron(30 6 ? * 6#3 *)", "UTC", "2026-11-21T00:00:00", "2026-12-18T06:30:00"),
        # 02:30 does not exist in Berlin on 2027-03-28
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2027-03-27T12:00:00", "2027-03-29T00:30:00"),
        ("cron(0 12 1 1 ? 2028)", "UTC", "2026-11-21T00:00:00", "2028-01-01T12:00:00"),
        ("at(2026-11-22T08:00:00)", "Asia/Tokyo", "2026-11-21T00:00:00", "2026-11-21T23:00:00"),
    ],
)
def test_the_next_time_is_the_local_one(expression: str, zone: str, now: str, expected: str) -> None:
    after = parse(expression, zone).after(dt.datetime.fromisoformat(f"{now}+00:00").timestamp())

    assert after is not None
    assert dt.datetime.fromtimestamp(after, dt.UTC).isoformat() == f"{expected}+00:00"


def test_a_cron_that_never_comes_never_fires() -> None:
    assert parse("cron(0 0 30 2 ? *)").after(0.0) is None


@pytest.mark.parametrize(
    "expression", ["cron(0 25 * * ? *)", "cron(0 9 15W * ? *)", "cron(0 9 * * ?)", "cron(0 9 ? * FUN *)"]
)
def test_a_cron_that_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(InvalidExpression):
        parse(expression)
