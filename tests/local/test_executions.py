"""Executions of Step Functions: how they end, their history, names and limits, and Express executions."""

import json
import time

import pytest

from tests.local.running_aws import RunningAws, eventually
from tests.local.state_machine_runs import OPTIMIZED, Sfn, machine

pytestmark = pytest.mark.local


def test_a_stopped_execution_enters_no_further_state(sfn: Sfn) -> None:
    execution = sfn.start(sfn.create(machine({"Pause": {"Type": "Wait", "Seconds": 1}, "After": {"Type": "Pass"}})))
    sfn.wait_for(execution, "WaitStateEntered")
    sfn.api.stop_execution(executionArn=execution, error="Killed", cause="by a test")
    time.sleep(1.2)

    ended = sfn.end(execution)
    assert (ended["status"], ended["error"], ended["cause"], "stopDate" in ended) == (
        "ABORTED",
        "Killed",
        "by a test",
        True,
    )
    assert [event["type"] for event in sfn.events(execution)] == [
        "ExecutionStarted",
        "WaitStateEntered",
        "ExecutionAborted",
    ]


def test_stopping_while_a_function_runs_keeps_what_follows_from_happening(sfn: Sfn, local_aws: RunningAws) -> None:
    url, _ = local_aws.queue()
    name = local_aws.function("import time\ndef handler(event, context):\n    time.sleep(1)\n")
    call = {"Type": "Task", "Resource": f"{OPTIMIZED}lambda:invoke", "Arguments": {"FunctionName": name}}
    send = {
        "Type": "Task",
        "Resource": f"{OPTIMIZED}sqs:sendMessage",
        "Arguments": {"QueueUrl": url, "MessageBody": "after"},
    }
    execution = sfn.start(sfn.create(machine({"Call": call, "Send": send})))
    sfn.wait_for(execution, "TaskStarted")
    sfn.api.stop_execution(executionArn=execution)

    assert "Messages" not in local_aws.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=2)


def test_an_execution_has_the_time_that_its_machine_gives_it(sfn: Sfn) -> None:
    ended = sfn.end(sfn.start(sfn.create(machine({"Pause": {"Type": "Wait", "Seconds": 60}}, TimeoutSeconds=1))))
    assert (ended["status"], ended["error"]) == ("TIMED_OUT", "States.Timeout")


def test_the_history_is_a_chain_with_what_went_in_and_out(sfn: Sfn) -> None:
    execution = sfn.start(
        sfn.create(
            machine({"Add": {"Type": "Pass", "Output": {"n": "{% $states.input.n + 1 %}"}, "Assign": {"x": 1}}})
        ),
        {"n": 1},
    )
    ended = sfn.end(execution)
    events = sfn.events(execution)

    assert [(event["id"], event["previousEventId"], event["type"]) for event in events] == [
        (1, 0, "ExecutionStarted"),
        (2, 1, "PassStateEntered"),
        (3, 2, "PassStateExited"),
        (4, 3, "ExecutionSucceeded"),
    ]
    assert events[0]["executionStartedEventDetails"]["input"] == '{"n": 1}'
    assert events[1]["stateEnteredEventDetails"]["name"] == "Add"
    assert events[2]["stateExitedEventDetails"]["output"] == '{"n":2}'
    assert events[2]["stateExitedEventDetails"]["assignedVariables"] == {"x": "1"}
    assert (ended["output"], ended["input"]) == ('{"n":2}', '{"n": 1}')
    newest = sfn.api.get_execution_history(executionArn=execution, reverseOrder=True, maxResults=1)
    assert (newest["events"][0]["type"], "nextToken" in newest) == ("ExecutionSucceeded", True)


def test_more_than_256_kilobytes_do_not_pass_from_state_to_state(sfn: Sfn) -> None:
    ended = sfn.end(sfn.start(sfn.create(machine({"Grow": {"Type": "Pass", "Output": "{% $pad('', 300000, 'x') %}"}}))))
    assert ended["error"] == "States.DataLimitExceeded"


def test_a_name_is_one_execution_while_it_runs_with_the_same_input(sfn: Sfn) -> None:
    arn = sfn.create(machine({"Pause": {"Type": "Wait", "Seconds": 1}}))
    first = sfn.start(arn, {"a": 1}, name="up-1")

    assert sfn.start(arn, {"a": 1}, name="up-1") == first
    with pytest.raises(sfn.api.exceptions.ExecutionAlreadyExists):
        sfn.start(arn, {"a": 2}, name="up-1")
    sfn.end(first)
    with pytest.raises(sfn.api.exceptions.ExecutionAlreadyExists):
        sfn.start(arn, {"a": 1}, name="up-1")
    assert len(sfn.api.list_executions(stateMachineArn=arn)["executions"]) == 1


@pytest.mark.parametrize("name", ["x" * 81, "with space", "colon:", "star*", "quote'\""])
def test_names_that_are_too_long_or_hold_forbidden_characters_are_refused(sfn: Sfn, name: str) -> None:
    arn = sfn.create(machine({"Done": {"Type": "Succeed"}}))
    with pytest.raises(sfn.api.exceptions.InvalidName):
        sfn.start(arn, name=name)
    with pytest.raises(sfn.api.exceptions.InvalidName):
        sfn.api.create_state_machine(name=name, definition=machine({"Done": {"Type": "Succeed"}}), roleArn=sfn.role)


def test_the_error_names_what_does_not_exist(sfn: Sfn) -> None:
    arn = sfn.create(machine({"Done": {"Type": "Succeed"}}))
    with pytest.raises(sfn.api.exceptions.StateMachineDoesNotExist):
        sfn.start(f"{arn}x")
    with pytest.raises(sfn.api.exceptions.ExecutionDoesNotExist):
        sfn.api.describe_execution(executionArn=arn.replace("stateMachine", "execution") + ":never")
    with pytest.raises(sfn.api.exceptions.InvalidExecutionInput):
        sfn.api.start_execution(stateMachineArn=arn, input="no json")


def test_express_executions_share_a_name_are_listed_nowhere_and_log(sfn: Sfn, local_aws: RunningAws) -> None:
    group = local_aws.fresh("/joiner/sweep")
    destination = {
        "cloudWatchLogsLogGroup": {"logGroupArn": f"arn:aws:logs:us-east-1:123456789012:log-group:{group}:*"}
    }
    arn = sfn.create(
        machine({"Done": {"Type": "Succeed"}}),
        kind="EXPRESS",
        loggingConfiguration={"level": "ALL", "includeExecutionData": True, "destinations": [destination]},
    )
    first, second = (sfn.start(arn, {"minute": n}, name="sweep") for n in (1, 2))

    assert first != second
    assert first.startswith(arn.replace(":stateMachine:", ":express:") + ":sweep:")
    with pytest.raises(sfn.api.exceptions.StateMachineTypeNotSupported):
        sfn.api.list_executions(stateMachineArn=arn)
    executions = local_aws.knob("express-executions", stateMachineArn=arn)["executions"]
    assert sorted(json.loads(each["input"])["minute"] for each in executions) == [1, 2]
    assert local_aws.knob("express-executions", stateMachineArn=arn, status=["FAILED"])["executions"] == []

    def logged() -> list[str]:
        if not local_aws.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            return []
        entries = [
            json.loads(event["message"])
            for event in local_aws.client("logs").filter_log_events(logGroupName=group)["events"]
        ]
        return [
            entry["type"]
            for entry in entries
            if entry["execution_arn"] == first and entry["type"] == "ExecutionSucceeded"
        ]

    assert eventually(logged) == ["ExecutionSucceeded"]


@pytest.mark.parametrize("kind", ["STANDARD", "EXPRESS"])
def test_a_knob_stops_all_executions_of_a_machine(sfn: Sfn, local_aws: RunningAws, kind: str) -> None:
    arn, other = (
        sfn.create(machine({"Wait": {"Type": "Wait", "Seconds": 100, "End": True}}), kind=kind) for _ in range(2)
    )
    execution, kept = sfn.start(arn), sfn.start(other)

    assert local_aws.knob("stop-executions", stateMachineArn=arn, cause="a test")["stopped"] == [execution]

    running = local_aws.knob("running-executions")["executions"]
    assert (execution in running, kept in running) == (False, True)
    local_aws.knob("stop-executions", stateMachineArn=other)


def test_a_synchronous_express_execution_answers_with_its_output(sfn: Sfn) -> None:
    arn = sfn.create(machine({"Done": {"Type": "Succeed", "Output": "{% $states.input.n + 1 %}"}}), kind="EXPRESS")
    ended = sfn.api.start_sync_execution(stateMachineArn=arn, input='{"n": 1}')
    assert (ended["status"], ended["output"]) == ("SUCCEEDED", "2")


def test_three_warm_function_states_take_a_few_milliseconds_each(sfn: Sfn, local_aws: RunningAws) -> None:
    name = local_aws.function("def handler(event, context):\n    return event\n")
    task = {
        "Type": "Task",
        "Resource": f"{OPTIMIZED}lambda:invoke",
        "Arguments": {"FunctionName": name, "Payload": {"schema": 1, "turn": "{% $exists($turn) ? $turn : 0 %}"}},
        "Assign": {"turn": "{% $states.result.Payload.turn + 1 %}"},
        "Output": "{% $states.result.Payload %}",
    }
    arn = sfn.create(machine({"One": task, "Two": task, "Three": task}))
    sfn.end(sfn.start(arn))

    def milliseconds() -> float:
        ended = sfn.end(sfn.start(arn))
        assert json.loads(ended["output"])["turn"] == 2
        return float((ended["stopDate"] - ended["startDate"]).total_seconds() * 1000)

    # 15 on an idle machine; the target for most executions is 30. What makes each slow makes all of these slow
    assert any(milliseconds() < 50 for _ in range(100))
