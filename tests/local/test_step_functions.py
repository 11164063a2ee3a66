"""Step Functions as AWS documents it: states, data, errors, tokens, names, the history; and what CreateStateMachine
refuses.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

SDK = "arn:aws:states:::aws-sdk"
OPTIMIZED = "arn:aws:states:::"


def machine(states: Mapping[str, Any], **top: Any) -> str:
    """Return a definition whose states follow each other in the written order, unless they name a next state."""
    names = list(states)
    written = {}
    for name, following in zip(names, [*names[1:], None], strict=True):
        state = dict(states[name])
        if state["Type"] not in ("Succeed", "Fail", "Choice") and not {"Next", "End"} & state.keys():
            state |= {"Next": following} if following else {"End": True}
        written[name] = state
    return json.dumps({"QueryLanguage": "JSONata", "StartAt": names[0], "States": written, **top})


class Sfn:
    """Step Functions for one test: short methods to run a machine and to read its result."""

    def __init__(self, aws: RunningAws) -> None:
        self.aws = aws
        self.api = aws.client("stepfunctions")
        self.role = aws.role("states.amazonaws.com")

    def create(self, definition: str, kind: str = "STANDARD", **more: Any) -> str:
        name = self.aws.fresh("machine")
        arn: str = self.api.create_state_machine(
            name=name, definition=definition, roleArn=self.role, type=kind, **more
        )["stateMachineArn"]
        return arn

    def start(self, arn: str, given: Any = None, **more: Any) -> str:
        execution: str = self.api.start_execution(stateMachineArn=arn, input=json.dumps(given), **more)["executionArn"]
        return execution

    def end(self, execution: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            described: dict[str, Any] = self.api.describe_execution(executionArn=execution)
            return described if described["status"] != "RUNNING" else None

        return eventually(look)

    def run(self, states: Mapping[str, Any], given: Any = None) -> Any:
        """Run a machine that must succeed; return its output."""
        ended = self.end(self.start(self.create(machine(states)), given))
        assert ended["status"] == "SUCCEEDED", ended
        return json.loads(ended["output"])

    def events(self, execution: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.api.get_execution_history(executionArn=execution, maxResults=1000)["events"]
        return events

    def wait_for(self, execution: str, event: str) -> None:
        eventually(lambda: [each for each in self.events(execution) if each["type"] == event])


@pytest.fixture
def sfn(local_aws: RunningAws) -> Sfn:
    return Sfn(local_aws)


@pytest.fixture(scope="module")
def table(local_aws: RunningAws) -> str:
    return local_aws.table()


# -- data


def test_expressions_see_the_input_variables_and_the_context(sfn: Sfn) -> None:
    output = sfn.run(
        {
            "Remember": {"Type": "Pass", "Assign": {"round": "{% $states.input.round + 1 %}", "kept": "as is"}},
            "Report": {
                "Type": "Pass",
                "Output": {
                    "round": "{% $round %}",
                    "kept": "{% $kept %}",
                    "state": "{% $states.context.State.Name %}",
                    "named": "{% $contains($states.context.Execution.Id, $states.context.Execution.Name) %}",
                    "list": "{% $map([1..3], function($n) { $n * 2 }) %}",
                    "nothing": None,
                },
            },
        },
        {"round": 1},
    )
    assert output == {"round": 2, "kept": "as is", "state": "Report", "named": True, "list": [2, 4, 6], "nothing": None}


def test_assignments_of_one_state_see_the_old_values(sfn: Sfn) -> None:
    output = sfn.run(
        {
            "First": {"Type": "Pass", "Assign": {"a": 1, "b": 2}},
            "Swap": {"Type": "Pass", "Assign": {"a": "{% $b %}", "b": "{% $a %}"}},
            "Report": {"Type": "Pass", "Output": "{% [$a, $b] %}"},
        }
    )
    assert output == [2, 1]


def test_text_with_quotes_and_line_ends_survives_variables(sfn: Sfn) -> None:
    text = 'he said "no"\nand left {% not an expression'
    states = {
        "Keep": {"Type": "Pass", "Assign": {"text": "{% $states.input %}"}},
        "Report": {"Type": "Pass", "Output": "{% $text %}"},
    }
    assert sfn.run(states, text) == text


def test_an_expression_that_gives_nothing_fails_and_can_be_caught(sfn: Sfn) -> None:
    broken = {"Type": "Pass", "Output": "{% $states.input.missing %}"}
    ended = sfn.end(sfn.start(sfn.create(machine({"Look": broken})), {}))
    assert (ended["status"], ended["error"]) == ("FAILED", "States.QueryEvaluationError")
    assert "An error occurred while executing the state 'Look' (entered at the event id #2)" in ended["cause"]
    assert "returned nothing (undefined)" in ended["cause"]

    caught = {
        "Look": {
            "Type": "Parallel",
            "Branches": [{"StartAt": "Inner", "States": {"Inner": {**broken, "End": True}}}],
            "Catch": [
                {
                    "ErrorEquals": ["States.QueryEvaluationError"],
                    "Next": "Saved",
                    "Output": "{% $states.errorOutput.Error %}",
                }
            ],
        },
        "Saved": {"Type": "Succeed"},
    }
    assert sfn.run(caught, {}) == "States.QueryEvaluationError"


def test_the_first_choice_that_holds_is_taken_and_without_one_the_default(sfn: Sfn) -> None:
    states = {
        "Decide": {
            "Type": "Choice",
            "Choices": [
                {"Condition": "{% $states.input.pods > 9 %}", "Next": "Many", "Assign": {"size": "large"}},
                {
                    "Condition": "{% $states.input.pods > 0 %}",
                    "Next": "Few",
                    "Output": "{% 'few of ' & $states.input.pods %}",
                },
            ],
            "Default": "None",
        },
        "Many": {"Type": "Succeed", "Output": "{% $size %}"},
        "Few": {"Type": "Succeed"},
        "None": {"Type": "Succeed", "Output": "none"},
    }
    arn = sfn.create(machine(states))
    outputs = [json.loads(sfn.end(sfn.start(arn, {"pods": pods}))["output"]) for pods in (17, 3, 0)]
    assert outputs == ["large", "few of 3", "none"]


def test_no_choice_and_no_default_fails(sfn: Sfn) -> None:
    states = {
        "Decide": {"Type": "Choice", "Choices": [{"Condition": "{% false %}", "Next": "End"}]},
        "End": {"Type": "Succeed"},
    }
    assert sfn.end(sfn.start(sfn.create(machine(states))))["error"] == "States.NoChoiceMatched"


def test_a_map_keeps_the_order_and_its_iterations_their_own_variables(sfn: Sfn) -> None:
    iteration = {
        "StartAt": "Mine",
        "States": {
            "Mine": {"Type": "Pass", "Assign": {"own": "{% $states.input.value * $factor %}"}, "Next": "Report"},
            "Report": {"Type": "Pass", "Output": "{% $own %}", "End": True},
        },
    }
    output = sfn.run(
        {
            "Outer": {"Type": "Pass", "Assign": {"factor": 10}},
            "Each": {
                "Type": "Map",
                "Items": "{% $states.input %}",
                "MaxConcurrency": 5,
                "ItemSelector": {"value": "{% $states.context.Map.Item.Value + $states.context.Map.Item.Index %}"},
                "ItemProcessor": iteration,
                "Assign": {"results": "{% $states.result %}"},
                "Output": "{% {'count': $count($states.result)} %}",
            },
            "Report all": {"Type": "Pass", "Output": "{% {'count': $states.input.count, 'results': $results} %}"},
        },
        [1, 2, 3, 4, 5, 6, 7],
    )
    assert output == {"count": 7, "results": [10, 30, 50, 70, 90, 110, 130]}


def test_a_map_over_nothing_gives_nothing(sfn: Sfn) -> None:
    iteration = {"StartAt": "Same", "States": {"Same": {"Type": "Pass", "End": True}}}
    assert sfn.run({"Each": {"Type": "Map", "ItemProcessor": iteration}}, []) == []


def test_branches_run_at_the_same_time_and_give_their_outputs_in_order(sfn: Sfn) -> None:
    branches = [
        {"StartAt": f"Wait {n}", "States": {f"Wait {n}": {"Type": "Wait", "Seconds": 1, "Output": n, "End": True}}}
        for n in (1, 2, 3)
    ]
    begun = time.perf_counter()
    assert sfn.run({"All": {"Type": "Parallel", "Branches": branches}}) == [1, 2, 3]
    assert 1 <= time.perf_counter() - begun < 2.5


def test_a_branch_that_fails_halts_the_others(sfn: Sfn) -> None:
    branches = [
        {"StartAt": "Long", "States": {"Long": {"Type": "Wait", "Seconds": 60, "End": True}}},
        {"StartAt": "Bad", "States": {"Bad": {"Type": "Fail", "Error": "NoCapacity", "Cause": "{% 'none' %}"}}},
    ]
    ended = sfn.end(sfn.start(sfn.create(machine({"All": {"Type": "Parallel", "Branches": branches}}))))
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", "NoCapacity", "none")


# -- tasks


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


# -- executions started by others


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


# -- task tokens


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


def await_nodes(table: str, wave: str) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": f"{SDK}:dynamodb:updateItem.waitForTaskToken",
        "Arguments": {
            "TableName": table,
            "Key": {"kind": {"S": "WAVE"}, "id": {"S": wave}},
            "UpdateExpression": "SET wakeToken = :token",
            "ExpressionAttributeValues": {":token": {"S": "{% $states.context.Task.Token %}"}},
        },
    }


def stored_token(sfn: Sfn, table: str, wave: str) -> str:
    key = {"kind": {"S": "WAVE"}, "id": {"S": wave}}
    item = sfn.aws.client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True).get("Item", {})
    token: str = item.get("wakeToken", {}).get("S", "")
    return token


# -- how executions end, and what is reported about them


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


# -- names


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


# -- creation


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


# -- Express


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


# -- speed


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

    ended = [sfn.end(sfn.start(arn)) for _ in range(10)]
    assert {json.loads(each["output"])["turn"] for each in ended} == {2}
    spent = sorted((each["stopDate"] - each["startDate"]).total_seconds() for each in ended)
    assert spent[0] < 0.05, spent  # 15 ms on an idle machine; the target for most executions is 30
