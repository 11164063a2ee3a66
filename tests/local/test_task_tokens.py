"""Tasks of Step Functions that wait for a token."""

import json
import time

import pytest

from tests.local.running_aws import eventually
from tests.local.state_machine_runs import Sfn, await_nodes, machine

pytestmark = pytest.mark.local


def test_a_token_in_a_table_wakes_the_task_that_wrote_it(sfn: Sfn, table: str) -> None:
    wave = sfn.aws.fresh("wave")
    arn = sfn.create(machine({"Await nodes": await_nodes(table, wave)}))
    execution = sfn.start(arn)
    token = eventually(lambda: stored_token(sfn, table, wave))
    sfn.api.send_task_success(taskToken=token, output='{"rings": 3}')

    assert json.loads(sfn.end(execution)["output"]) == {"rings": 3}
    types = [event["type"] for event in sfn.events(execution)]
    assert types[2:6] == ["TaskScheduled", "TaskStarted", "TaskSubmitted", "TaskSucceeded"]
    with pytest.raises(sfn.api.exceptions.TaskTimedOut):  # a second ring is too late
        sfn.api.send_task_success(taskToken=token, output="{}")


def test_a_token_that_is_not_returned_times_out_and_is_refused_then(sfn: Sfn, table: str) -> None:
    wave = sfn.aws.fresh("wave")
    catch = [{"ErrorEquals": ["States.Timeout"], "Next": "Look"}]
    states = {
        "Await nodes": {**await_nodes(table, wave), "TimeoutSeconds": 1, "Catch": catch},
        "Look": {"Type": "Pass", "Output": "looked"},
    }
    assert sfn.run(states) == "looked"
    with pytest.raises(sfn.api.exceptions.TaskTimedOut):
        sfn.api.send_task_success(taskToken=stored_token(sfn, table, wave), output="{}")


def test_a_task_whose_call_is_refused_does_not_wait_for_its_token(sfn: Sfn, table: str) -> None:
    task = await_nodes(table, sfn.aws.fresh("wave"))
    task["Arguments"]["ConditionExpression"] = "rings = :one"
    task["Arguments"]["ExpressionAttributeValues"][":one"] = {"N": "1"}
    ended = sfn.end(sfn.start(sfn.create(machine({"Await nodes": task}))))
    assert ended["error"] == "DynamoDb.ConditionalCheckFailedException"


def test_a_failure_sent_to_a_token_fails_the_task_with_its_cause(sfn: Sfn, table: str) -> None:
    wave = sfn.aws.fresh("wave")
    execution = sfn.start(sfn.create(machine({"Await nodes": await_nodes(table, wave)})))
    sfn.api.send_task_failure(
        taskToken=eventually(lambda: stored_token(sfn, table, wave)), error="NodeLost", cause="spot"
    )
    ended = sfn.end(execution)
    assert (ended["error"], ended["cause"]) == ("NodeLost", "spot")


def test_a_task_without_heartbeats_times_out_and_with_them_goes_on(sfn: Sfn, table: str) -> None:
    wave = sfn.aws.fresh("wave")
    execution = sfn.start(sfn.create(machine({"Await nodes": {**await_nodes(table, wave), "HeartbeatSeconds": 1}})))
    token = eventually(lambda: stored_token(sfn, table, wave))
    for _ in range(3):
        time.sleep(0.5)
        sfn.api.send_task_heartbeat(taskToken=token)
    assert sfn.api.describe_execution(executionArn=execution)["status"] == "RUNNING"
    assert sfn.end(execution)["error"] == "States.HeartbeatTimeout"


def test_a_token_that_was_never_given_out_is_invalid(sfn: Sfn) -> None:
    with pytest.raises(sfn.api.exceptions.InvalidToken):
        sfn.api.send_task_success(taskToken="made up", output="{}")


def stored_token(sfn: Sfn, table: str, wave: str) -> str:
    key = {"kind": {"S": "WAVE"}, "id": {"S": wave}}
    item = sfn.aws.client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True).get("Item", {})
    token: str = item.get("wakeToken", {}).get("S", "")
    return token
