"""What CreateStateMachine refuses, and published versions."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.state_machine_runs import OPTIMIZED, SDK, Sfn, await_nodes, machine

pytestmark = pytest.mark.local


@pytest.mark.parametrize(
    ("states", "complaint"),
    [
        ({"A": {"Type": "Pass", "Next": "Nowhere"}}, "Missing 'Next' target: Nowhere"),
        ({"A": {"Type": "Pass", "End": True}, "B": {"Type": "Pass", "End": True}}, 'State "B" is not reachable'),
        ({"A": {"Type": "Pass", "Parameters": {}}}, "Field 'Parameters' is not supported"),
        ({"A": {"Type": "Pass", "Output": "{% 1 + %}"}}, "JSONata expression is not valid"),
        ({"A": {"Type": "Task", "Resource": f"{OPTIMIZED}dynamodb:updateItem.waitForTaskToken"}}, "is not recognized"),
        ({"A": {"Type": "Task", "Resource": f"{SDK}:ec2:launchRockets"}}, "is not recognized"),
        (
            {"A": {"Type": "Task", "Resource": f"{SDK}:eks:describeCluster", "Arguments": {"name": "x"}}},
            'field "name" is not supported',
        ),
        ({"A": {"Type": "Wait"}}, "exactly one of Seconds and Timestamp"),
        ({"A": {"Type": "Pass", "QueryLanguage": "JSONPath"}}, "JSONata only"),
    ],
)
def test_definitions_that_aws_or_we_cannot_run_are_refused(sfn: Sfn, states: dict[str, Any], complaint: str) -> None:
    with pytest.raises(sfn.api.exceptions.InvalidDefinition, match=complaint):
        sfn.create(machine(states))


def test_an_express_machine_cannot_wait_for_a_token(sfn: Sfn, table: str) -> None:
    with pytest.raises(sfn.api.exceptions.InvalidDefinition, match=r"does not support '.waitForTaskToken'"):
        sfn.create(machine({"Await nodes": await_nodes(table, "wave")}), kind="EXPRESS")


def test_a_role_that_step_functions_may_not_assume_is_refused(sfn: Sfn) -> None:
    with pytest.raises(ClientError, match="is authorized to assume the provided role"):
        sfn.api.create_state_machine(
            name="untrusted",
            definition=machine({"Done": {"Type": "Succeed"}}),
            roleArn=sfn.aws.role("lambda.amazonaws.com"),
        )


def test_a_version_stays_as_it_was_published(sfn: Sfn) -> None:
    arn = sfn.create(machine({"Done": {"Type": "Succeed", "Output": "old"}}))
    version = sfn.api.publish_state_machine_version(stateMachineArn=arn)["stateMachineVersionArn"]
    sfn.api.update_state_machine(
        stateMachineArn=arn, definition=machine({"Done": {"Type": "Succeed", "Output": "new"}})
    )

    assert version == f"{arn}:1"
    assert [json.loads(sfn.end(sfn.start(each))["output"]) for each in (version, arn)] == ["old", "new"]
