"""EventBridge rules: matching events go to their targets in the configured form, or to a dead-letter queue if that
fails.
"""

import json
from typing import Any

import pytest

from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local


class Bus:
    """Events of one test, with a source of its own, so that they match no other test's rules."""

    def __init__(self, aws: RunningAws) -> None:
        self.aws = aws
        self.api = aws.client("events")
        self.source = aws.fresh("test")

    def rule(self, target_arn: str, *, state: str = "ENABLED", name: str | None = None, **target: Any) -> str:
        name = name or self.aws.fresh("rule")
        pattern = {"source": [self.source], "detail": {"state": ["terminated"]}}
        arn: str = self.api.put_rule(Name=name, EventPattern=json.dumps(pattern), State=state)["RuleArn"]
        self.api.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": target_arn, **target}])
        return arn

    def queue(self) -> tuple[str, str]:
        """Return a queue that rules may send to."""
        url, arn = self.aws.queue()
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        self.aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        return url, arn

    def emit(self, state: str = "terminated") -> None:
        detail = json.dumps({"instance-id": "i-1", "state": state})
        answer = self.api.put_events(
            Entries=[{"Source": self.source, "DetailType": "State change", "Detail": detail, "Resources": ["arn:i-1"]}]
        )
        assert answer["FailedEntryCount"] == 0

    def received(self, url: str, wait: int = 20) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = (
            self.aws.client("sqs")
            .receive_message(QueueUrl=url, WaitTimeSeconds=wait, MessageAttributeNames=["All"])
            .get("Messages", [])
        )
        return messages


@pytest.fixture
def bus(local_aws: RunningAws) -> Bus:
    return Bus(local_aws)


def test_a_matching_event_reaches_the_queue_whole(bus: Bus) -> None:
    url, arn = bus.queue()
    bus.rule(arn)
    bus.emit("running")  # does not match
    bus.emit()

    (message,) = bus.received(url)
    event = json.loads(message["Body"])
    assert list(event) == ["version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"]
    assert (event["detail-type"], event["source"], event["account"], event["resources"]) == (
        "State change",
        bus.source,
        "123456789012",
        ["arn:i-1"],
    )
    assert event["detail"] == {"instance-id": "i-1", "state": "terminated"}
    assert event["time"].endswith("Z")


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ({"Input": '{"look": true}'}, {"look": True}),
        ({"InputPath": "$.detail"}, {"instance-id": "i-1", "state": "terminated"}),
        (
            {
                "InputTransformer": {
                    "InputPathsMap": {"id": "$.detail.instance-id"},
                    "InputTemplate": '{"id": <id>, "text": "was <id>"}',
                }
            },
            {"id": "i-1", "text": "was i-1"},
        ),
    ],
)
def test_a_target_gets_the_input_it_asked_for(bus: Bus, shape: dict[str, Any], body: dict[str, Any]) -> None:
    url, arn = bus.queue()
    bus.rule(arn, **shape)
    bus.emit()
    assert json.loads(bus.received(url)[0]["Body"]) == body


def test_a_disabled_rule_delivers_nothing(bus: Bus) -> None:
    url, arn = bus.queue()
    bus.rule(arn, state="DISABLED")
    bus.emit()
    assert bus.received(url, wait=1) == []


def test_a_queue_whose_policy_does_not_let_the_rule_in_gets_nothing_and_the_dead_letter_has_the_reason(
    bus: Bus,
) -> None:
    closed_url, closed_arn = bus.aws.queue()
    dead_url, dead_arn = bus.queue()
    rule = bus.rule(closed_arn, DeadLetterConfig={"Arn": dead_arn})
    bus.emit()

    (letter,) = bus.received(dead_url)
    attributes = {name: attribute["StringValue"] for name, attribute in letter["MessageAttributes"].items()}
    assert (attributes["ERROR_CODE"], attributes["RULE_ARN"], attributes["TARGET_ARN"]) == (
        "NO_PERMISSIONS",
        rule,
        closed_arn,
    )
    assert json.loads(letter["Body"])["detail"]["instance-id"] == "i-1"
    assert bus.received(closed_url, wait=0) == []


def test_a_target_that_is_gone_is_a_dead_letter(bus: Bus) -> None:
    gone_url, gone_arn = bus.queue()
    dead_url, dead_arn = bus.queue()
    bus.rule(gone_arn, DeadLetterConfig={"Arn": dead_arn})
    bus.aws.client("sqs").delete_queue(QueueUrl=gone_url)
    bus.emit()
    assert bus.received(dead_url)[0]["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_RESOURCE"


def test_a_function_is_invoked_only_by_the_rule_that_has_its_permission(bus: Bus) -> None:
    seen, _ = bus.aws.queue()
    name = bus.aws.function(
        "import boto3, json, os\nsqs = boto3.client('sqs')\ndef handler(event, context):\n"
        "    sqs.send_message(QueueUrl=os.environ['SEEN'], MessageBody=json.dumps(event['detail']))\n",
        Environment={"Variables": {"SEEN": seen}},
    )
    arn = bus.aws.client("lambda").get_function_configuration(FunctionName=name)["FunctionArn"]
    rule = bus.rule(arn)
    bus.emit()
    assert bus.received(seen, wait=1) == []

    bus.aws.client("lambda").add_permission(
        FunctionName=name,
        StatementId="rule",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
        SourceArn=rule,
    )
    bus.emit()
    assert json.loads(bus.received(seen)[0]["Body"])["instance-id"] == "i-1"


def test_a_state_machine_is_started_with_the_event_as_its_input(bus: Bus) -> None:
    sfn = bus.aws.client("stepfunctions")
    definition = {"QueryLanguage": "JSONata", "StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}
    machine = sfn.create_state_machine(
        name=bus.aws.fresh("machine"), definition=json.dumps(definition), roleArn=bus.aws.role("states.amazonaws.com")
    )["stateMachineArn"]
    bus.rule(machine, RoleArn=bus.aws.role("events.amazonaws.com"))
    bus.emit()

    (execution,) = eventually(lambda: sfn.list_executions(stateMachineArn=machine)["executions"])
    given = json.loads(sfn.describe_execution(executionArn=execution["executionArn"])["input"])
    assert given["detail"]["instance-id"] == "i-1"


def test_only_aws_emits_events_of_aws(bus: Bus) -> None:
    with pytest.raises(bus.api.exceptions.ClientError, match="Not authorized for the source"):
        bus.api.put_events(Entries=[{"Source": "aws.ec2", "DetailType": "x", "Detail": "{}"}])


def test_a_scheduled_rule_is_refused_because_nothing_would_fire_it(bus: Bus) -> None:
    with pytest.raises(bus.api.exceptions.ClientError, match="EventBridge Scheduler"):
        bus.api.put_rule(Name=bus.aws.fresh("rule"), ScheduleExpression="rate(1 minute)")
