"""Custom resources: a function of the template decides the result, and CloudFormation accepts valid responses only."""

import http.client
import json
from typing import Any

import pytest

from tests.local.running_aws import RunningAws
from tests.local.stack_under_test import StackUnderTest, att, parameter

# Does what its properties request, and records each request.
FUNCTION = """
import json, urllib.request, boto3

def handler(event, context):
    wanted = event["ResourceProperties"]
    boto3.client("sqs").send_message(QueueUrl=wanted["Queue"], MessageBody=json.dumps(event))
    mode = wanted.get("Mode", "ok")
    if mode == "silent" and event["RequestType"] != "Delete":
        return
    if mode == "crash" and event["RequestType"] != "Delete":
        raise RuntimeError("custom code broke")
    failed = mode == "failed" and event["RequestType"] != "Delete"
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {
        "Status": "FAILED" if failed else "SUCCESS",
        "Reason": "the cluster refused",
        "PhysicalResourceId": (
            event.get("PhysicalResourceId") if event["RequestType"] == "Delete" else wanted.get("Name", "made")
        ),
        "Data": {"Value": wanted.get("Value", "")},
    }
    if mode == "stranger" and event["RequestType"] != "Delete":
        answer["RequestId"] = "another request's"
    request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")
    urllib.request.urlopen(request).read()
"""


class Installer:
    """A function behind custom resources, and the requests that it got."""

    def __init__(self, aws: RunningAws) -> None:
        self.aws = aws
        self.queue, _ = aws.queue()
        name = aws.function(FUNCTION, Timeout=15)
        self.arn = aws.client("lambda").get_function(FunctionName=name)["Configuration"]["FunctionArn"]

    def resource(self, **properties: Any) -> dict[str, Any]:
        return {
            "Type": "Custom::Installation",
            "Properties": {"ServiceToken": self.arn, "Queue": self.queue, **properties},
        }

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests since the last call, in their order."""
        found = []
        while (
            messages := self.aws.client("sqs")
            .receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
            .get("Messages")
        ):
            found += [json.loads(message["Body"]) for message in messages]
            for message in messages:
                self.aws.client("sqs").delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return found

    def kinds(self) -> list[tuple[str, str | None]]:
        return [(request["RequestType"], request.get("PhysicalResourceId")) for request in self.requests()]


@pytest.fixture(scope="module")
def installer(local_aws: RunningAws) -> Installer:
    return Installer(local_aws)


@pytest.fixture(autouse=True)
def forget_earlier_requests(installer: Installer) -> None:
    installer.requests()


def test_it_is_asked_to_create_update_and_delete_and_its_data_reach_others(
    local_aws: RunningAws, installer: Installer
) -> None:
    stack = StackUnderTest(local_aws)
    uses = parameter(att("Thing", "Value"))

    assert stack.create({"Thing": installer.resource(Value="one"), "Uses": uses}) == "CREATE_COMPLETE"
    assert stack.update({"Thing": installer.resource(Value="two"), "Uses": uses}) == "UPDATE_COMPLETE"
    assert local_aws.client("ssm").get_parameter(Name=stack.physical_id("Uses"))["Parameter"]["Value"] == "two"
    assert stack.delete() == "DELETE_COMPLETE"

    create, update, delete = installer.requests()
    assert (create["RequestType"], create["LogicalResourceId"], create["ResourceType"]) == (
        "Create",
        "Thing",
        "Custom::Installation",
    )
    assert create["StackId"] == stack.stack_id
    assert (update["OldResourceProperties"]["Value"], update["PhysicalResourceId"]) == ("one", "made")
    assert (delete["RequestType"], delete["PhysicalResourceId"]) == ("Delete", "made")


def test_every_scalar_arrives_as_a_string(local_aws: RunningAws, installer: Installer) -> None:
    stack = StackUnderTest(local_aws)
    stack.create({"Thing": installer.resource(Number=7, Flag=True, Nested={"List": [1, False]})})

    [request] = installer.requests()
    got = request["ResourceProperties"]
    assert (got["Number"], got["Flag"], got["Nested"]) == ("7", "true", {"List": ["1", "false"]})


def test_a_failure_fails_the_stack_with_its_reason_and_is_still_asked_to_delete(
    local_aws: RunningAws, installer: Installer
) -> None:
    stack = StackUnderTest(local_aws)

    assert stack.create({"Thing": installer.resource(Mode="failed", Name="half")}) == "ROLLBACK_COMPLETE"
    assert "Message returned: the cluster refused" in stack.reason("Thing")
    assert installer.kinds() == [("Create", None), ("Delete", "half")]


def test_a_failing_update_is_updated_back(local_aws: RunningAws, installer: Installer) -> None:
    stack = StackUnderTest(local_aws)
    stack.create({"Thing": installer.resource(Value="good")})
    installer.requests()

    assert stack.update({"Thing": installer.resource(Value="bad", Mode="failed")}) == "UPDATE_ROLLBACK_COMPLETE"
    there, back = installer.requests()
    assert (there["ResourceProperties"]["Value"], there["OldResourceProperties"]["Value"]) == ("bad", "good")
    assert (back["ResourceProperties"]["Value"], back["OldResourceProperties"]["Value"]) == ("good", "bad")


def test_another_physical_id_means_that_the_old_one_is_deleted_after_the_update(
    local_aws: RunningAws, installer: Installer
) -> None:
    stack = StackUnderTest(local_aws)
    stack.create({"Thing": installer.resource(Name="a")})
    installer.requests()

    assert stack.update({"Thing": installer.resource(Name="b")}) == "UPDATE_COMPLETE"
    assert installer.kinds() == [("Update", "a"), ("Delete", "a")]
    assert stack.delete() == "DELETE_COMPLETE"
    assert installer.kinds() == [("Delete", "b")]


@pytest.mark.parametrize(
    ("mode", "complaint"),
    [
        ("silent", "did not receive a response from your Custom Resource"),
        ("stranger", 'Invalid response: RequestId is "another request\'s"'),
    ],
)
def test_no_proper_answer_fails_the_stack(
    local_aws: RunningAws, installer: Installer, mode: str, complaint: str
) -> None:
    stack = StackUnderTest(local_aws)
    thing = installer.resource(Mode=mode)

    assert stack.create({"Thing": thing}) == "ROLLBACK_COMPLETE"
    assert complaint in stack.reason("Thing")


def test_a_function_that_crashes_is_tried_three_times_and_its_error_reported(
    local_aws: RunningAws, installer: Installer
) -> None:
    stack = StackUnderTest(local_aws)

    assert stack.create({"Thing": installer.resource(Mode="crash")}) == "ROLLBACK_COMPLETE"
    assert "custom code broke" in stack.reason("Thing")
    assert [kind for kind, _ in installer.kinds()] == ["Create", "Create", "Create", "Delete"]


def test_the_service_timeout_is_how_long_an_answer_may_take(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    name = local_aws.function(
        "import time\ndef handler(event, context): time.sleep(0 if event['RequestType'] == 'Delete' else 5)", Timeout=10
    )
    arn = local_aws.client("lambda").get_function(FunctionName=name)["Configuration"]["FunctionArn"]

    stack.create({"Slow": {"Type": "Custom::Slow", "Properties": {"ServiceToken": arn, "ServiceTimeout": 1}}})
    assert "nothing within 1 s" in stack.reason("Slow")


def test_an_attribute_that_was_not_answered_fails_who_asks_for_it(local_aws: RunningAws, installer: Installer) -> None:
    stack = StackUnderTest(local_aws)

    assert (
        stack.create({"Thing": installer.resource(), "Uses": parameter(att("Thing", "Missing"))}) == "ROLLBACK_COMPLETE"
    )
    assert "Vendor response doesn't contain Missing attribute in object Thing" in stack.reason("Uses")


def test_an_answer_that_comes_too_late_is_refused(local_aws: RunningAws) -> None:
    connection = http.client.HTTPConnection(local_aws.endpoint.removeprefix("http://"), timeout=30)
    connection.request("PUT", "/_local/custom-resources/expired", "{}")

    assert connection.getresponse().status == 403
    connection.close()
