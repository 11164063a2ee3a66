"""Tasks of Step Functions: functions, SDK calls, the lease in a table, and executions that tasks start."""

import json
from typing import Any

import pytest

from tests.local.running_aws import RunningAws, eventually
from tests.local.state_machine_runs import OPTIMIZED, SDK, Sfn, machine

pytestmark = pytest.mark.local


def test_a_function_task_gets_its_payload_and_gives_its_answer(sfn: Sfn, local_aws: RunningAws) -> None:
    name = local_aws.function("def handler(event, context):\n    return {'pods': event['pods'] + 1}\n")
    task = {
        "Type": "Task",
        "Resource": f"{OPTIMIZED}lambda:invoke",
        "Arguments": {"FunctionName": name, "Payload": "{% $states.input %}"},
    }

    assert sfn.run({"Count": {**task, "Output": "{% $states.result.Payload %}"}}, {"pods": 1}) == {"pods": 2}
    raw = sfn.run({"Count": task}, {"pods": 1})
    assert (raw["StatusCode"], raw["ExecutedVersion"], raw["Payload"]) == (200, "$LATEST", {"pods": 2})


def test_a_published_version_is_called_by_its_arn(sfn: Sfn, local_aws: RunningAws) -> None:
    name = local_aws.function("def handler(event, context):\n    return context.function_version\n")
    version = local_aws.client("lambda").publish_version(FunctionName=name)["FunctionArn"]

    assert sfn.run({"Call": {"Type": "Task", "Resource": version}}, {}) == "1"
    invoke = {"Type": "Task", "Resource": f"{OPTIMIZED}lambda:invoke", "Arguments": {"FunctionName": version}}
    assert sfn.run({"Call": {**invoke, "Output": "{% $states.result.Payload %}"}}) == "1"


def test_errors_of_a_function_are_retried_and_caught_by_their_class(sfn: Sfn, local_aws: RunningAws) -> None:
    name = local_aws.function(
        "tries = 0\nclass Busy(Exception): pass\nclass LeaseLost(Exception): pass\n"
        "def handler(event, context):\n    global tries\n    tries += 1\n"
        "    if tries < 3: raise Busy('try again')\n    raise LeaseLost(str(tries))\n"
    )
    execution = sfn.start(
        sfn.create(
            machine(
                {
                    "Call": {
                        "Type": "Task",
                        "Resource": f"{OPTIMIZED}lambda:invoke",
                        "Arguments": {"FunctionName": name},
                        "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 5}],
                        "Catch": [
                            {
                                "ErrorEquals": ["LeaseLost"],
                                "Next": "Lost",
                                "Assign": {"why": "{% $states.errorOutput.Cause %}"},
                            }
                        ],
                    },
                    "Lost": {"Type": "Pass", "Output": "{% $parse($why).errorMessage %}"},
                }
            )
        )
    )
    assert json.loads(sfn.end(execution)["output"]) == "3"
    assert [event["type"] for event in sfn.events(execution)].count("TaskFailed") == 3


def test_a_crashed_or_timed_out_function_fails_its_task_by_name(sfn: Sfn, local_aws: RunningAws) -> None:
    crash = local_aws.function("import os\ndef handler(event, context):\n    os._exit(1)\n")
    slow = local_aws.function("import time\ndef handler(event, context):\n    time.sleep(5)\n", Timeout=1)
    errors = []
    for name in (crash, slow, "nowhere"):
        task = {"Type": "Task", "Resource": f"{OPTIMIZED}lambda:invoke", "Arguments": {"FunctionName": name}}
        errors.append(sfn.end(sfn.start(sfn.create(machine({"Call": task}))))["error"])
    assert errors == ["Runtime.ExitError", "Sandbox.Timedout", "Lambda.ResourceNotFoundException"]


def test_a_task_that_takes_too_long_times_out(sfn: Sfn, local_aws: RunningAws) -> None:
    name = local_aws.function("import time\ndef handler(event, context):\n    time.sleep(4)\n")
    task = {
        "Type": "Task",
        "Resource": f"{OPTIMIZED}lambda:invoke",
        "Arguments": {"FunctionName": name},
        "TimeoutSeconds": 1,
    }
    execution = sfn.start(sfn.create(machine({"Call": task})))
    assert sfn.end(execution)["error"] == "States.Timeout"
    assert "TaskTimedOut" in [event["type"] for event in sfn.events(execution)]


def lease(table: str, holder: str, resource: str, **more: Any) -> dict[str, Any]:
    """Return a task that takes the lease, as in SCALE UP."""
    return {
        "Type": "Task",
        "Resource": resource,
        "Arguments": {
            "TableName": table,
            "Key": {"kind": {"S": "LEASE"}, "id": {"S": holder}},
            "UpdateExpression": "SET holder = :me, leaseNumber = if_not_exists(leaseNumber, :zero) + :one",
            "ConditionExpression": "attribute_not_exists(holder)",
            "ExpressionAttributeValues": {
                ":me": {"S": "{% $states.context.Execution.Id %}"},
                ":zero": {"N": "0"},
                ":one": {"N": "1"},
            },
            "ReturnValues": "ALL_NEW",
        },
        **more,
    }


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (f"{OPTIMIZED}dynamodb:updateItem", "DynamoDB.ConditionalCheckFailedException"),
        (f"{SDK}:dynamodb:updateItem", "DynamoDb.ConditionalCheckFailedException"),
    ],
)
def test_a_lease_is_taken_once_and_refused_by_the_integrations_own_error(
    sfn: Sfn, table: str, resource: str, error: str
) -> None:
    holder = sfn.aws.fresh("holder")
    arn = sfn.create(
        machine(
            {
                "Take the lease": lease(
                    table, holder, resource, Output="{% $number($states.result.Attributes.leaseNumber.N) %}"
                )
            }
        )
    )

    first, second = sfn.end(sfn.start(arn)), sfn.end(sfn.start(arn))
    assert (first["status"], first["output"]) == ("SUCCEEDED", "1")
    assert (second["status"], second["error"]) == ("FAILED", error)


def test_sdk_answers_are_in_pascal_case(sfn: Sfn) -> None:
    sfn.aws.client("eks").create_cluster(
        name="spelling",
        roleArn=sfn.aws.role("eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": [], "securityGroupIds": []},
    )
    task = {"Type": "Task", "Resource": f"{SDK}:eks:describeCluster", "Arguments": {"Name": "spelling"}}
    cluster = sfn.run({"Describe the cluster": {**task, "Output": "{% $states.result.Cluster %}"}})
    assert {"Name", "Endpoint", "CertificateAuthority", "KubernetesNetworkConfig"} <= cluster.keys()
    assert cluster["CreatedAt"].endswith("Z")

    missing = {**task, "Arguments": {"Name": "nowhere"}}
    assert sfn.end(sfn.start(sfn.create(machine({"Describe": missing}))))["error"] == "Eks.ResourceNotFoundException"


def test_a_task_acts_as_the_role_of_the_machine(sfn: Sfn) -> None:
    output = sfn.run({"Who": {"Type": "Task", "Resource": f"{SDK}:sts:getCallerIdentity", "Arguments": {}}})
    assert output["Arn"].startswith(f"arn:aws:sts::123456789012:assumed-role/{sfn.role.rsplit('/', 1)[-1]}/")


def test_a_machine_starts_another_once_by_name(sfn: Sfn) -> None:
    inner = sfn.create(machine({"Done": {"Type": "Succeed"}}))
    name = sfn.aws.fresh("up")
    start = {
        "Type": "Task",
        "Resource": f"{OPTIMIZED}states:startExecution",
        "Arguments": {"StateMachineArn": inner, "Name": name, "Input": {"who": "{% $states.context.Execution.Name %}"}},
        "Catch": [{"ErrorEquals": ["StepFunctions.ExecutionAlreadyExistsException"], "Next": "There already"}],
        "Output": "{% $states.result.ExecutionArn %}",
        "Next": "Started",
    }
    outer = sfn.create(
        machine(
            {
                "Start it": start,
                "Started": {"Type": "Succeed"},
                "There already": {"Type": "Succeed", "Output": "already"},
            }
        )
    )

    first = json.loads(sfn.end(sfn.start(outer))["output"])
    assert first.endswith(f":{name}")
    assert json.loads(sfn.end(first)["input"])["who"]
    assert json.loads(sfn.end(sfn.start(outer))["output"]) == "already"


def test_the_sdk_names_the_same_error_otherwise(sfn: Sfn) -> None:
    inner = sfn.create(machine({"Done": {"Type": "Succeed"}}))
    sfn.end(sfn.start(inner, name="taken"))
    start = {
        "Type": "Task",
        "Resource": f"{SDK}:sfn:startExecution",
        "Arguments": {"StateMachineArn": inner, "Name": "taken", "Input": "{}"},
    }
    assert (
        sfn.end(sfn.start(sfn.create(machine({"Start it": start}))))["error"] == "Sfn.ExecutionAlreadyExistsException"
    )


def test_sync_waits_for_the_other_and_stops_it_when_it_is_stopped(sfn: Sfn) -> None:
    inner = sfn.create(
        machine({"Maybe wait": {"Type": "Wait", "Seconds": "{% $states.input.seconds %}", "Output": {"done": True}}})
    )
    start = {
        "Type": "Task",
        "Resource": f"{OPTIMIZED}states:startExecution.sync:2",
        "Arguments": {"StateMachineArn": inner, "Input": "{% $states.input %}"},
        "Output": "{% $states.result.Output %}",
    }
    outer = sfn.create(machine({"Run it": start}))
    assert json.loads(sfn.end(sfn.start(outer, {"seconds": 0}))["output"]) == {"done": True}

    waiting = sfn.start(outer, {"seconds": 60})
    sfn.wait_for(waiting, "TaskSubmitted")
    sfn.api.stop_execution(executionArn=waiting)
    assert eventually(lambda: sfn.api.list_executions(stateMachineArn=inner, statusFilter="ABORTED")["executions"])
