"""Step Functions: what it refuses when a machine is created, started or called back, and failures of executions."""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from tests.local.refusals.refused_calls import Refused, not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws, eventually

SFN: Final = "stepfunctions"
EXECUTION: Final = "an execution"
"""Causes of failed executions are listed under this name: no call is refused."""

QUOTAS: Final = "Step Functions developer guide, Service quotas"
ERRORS: Final = "Step Functions developer guide, Handling errors in Step Functions workflows"
VARIABLES: Final = "Step Functions developer guide, Passing data between states with variables"
JSONATA: Final = "Step Functions developer guide, Transforming data with JSONata"
LANGUAGE: Final = "Amazon States Language specification"
API: Final = "Step Functions API reference"

QUARTER: Final = 262_144  # bytes
LONG: Final = "x" * QUARTER
END: Final = {"Type": "Succeed"}


def machine(states: Mapping[str, Any], **top: Any) -> str:
    """Return a definition that begins with the first of these states."""
    return json.dumps({"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": states, **top})


def branch(states: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the states of a Map."""
    return {"StartAt": next(iter(states)), "States": states}


def create(aws: RunningAws, states: Mapping[str, Any], kind: str = "STANDARD", **more: Any) -> str:
    role = aws.role("states.amazonaws.com")
    answer = aws.client(SFN).create_state_machine(
        **{"name": aws.fresh("machine"), "definition": machine(states), "roleArn": role, "type": kind, **more}
    )
    return str(answer["stateMachineArn"])


def run(aws: RunningAws, states: Mapping[str, Any], given: Any = None) -> None:
    """Run a Standard machine to its end; raise its failure."""
    execution = aws.client(SFN).start_execution(stateMachineArn=create(aws, states), input=json.dumps(given))[
        "executionArn"
    ]

    def look() -> dict[str, Any] | None:
        described: dict[str, Any] = aws.client(SFN).describe_execution(executionArn=execution)
        return described if described["status"] != "RUNNING" else None

    ended = eventually(look)
    if ended["status"] != "SUCCEEDED":
        raise Refused(ended["error"], ended.get("cause", ""))


def one(**state: Any) -> Mapping[str, Any]:
    return {"Only": {"End": True, **state}}


# Creating


@refuses(SFN, "CreateStateMachine", "a name with a space", code="InvalidName", source=f"{API}, CreateStateMachine")
def a_name_with_a_space(aws: RunningAws) -> None:
    create(aws, {"End": END}, name="two words")


@refuses(SFN, "CreateStateMachine", "a definition above 1 MB", code="InvalidDefinition", source=QUOTAS)
def a_large_definition(aws: RunningAws) -> None:
    body = machine({f"State {number}": {"Type": "Pass", "Comment": LONG, "End": True} for number in range(4)})
    aws.client(SFN).create_state_machine(name=aws.fresh("m"), definition=body, roleArn=aws.role("states.amazonaws.com"))


@refuses(
    SFN,
    "CreateStateMachine",
    "an unknown field of a state",
    code="InvalidDefinition",
    message="is not supported",
    source=LANGUAGE,
)
def an_unknown_field(aws: RunningAws) -> None:
    create(aws, one(Type="Pass", Outputs={}))


@refuses(
    SFN,
    "CreateStateMachine",
    "a state that nothing leads to",
    code="InvalidDefinition",
    message="not reachable",
    source=LANGUAGE,
)
def an_unreachable_state(aws: RunningAws) -> None:
    create(aws, {"First": END, "Second": END})


@refuses(
    SFN,
    "CreateStateMachine",
    "States.ALL beside another error",
    code="InvalidDefinition",
    message="States.ALL",
    source=ERRORS,
)
def every_error_and_another(aws: RunningAws) -> None:
    catch = [{"ErrorEquals": ["States.ALL", "States.Timeout"], "Next": "End"}]
    create(
        aws,
        {"First": {"Type": "Map", "Items": [], "ItemProcessor": branch({"In": END}), "Catch": catch, "Next": "End"}},
    )


@refuses(
    SFN,
    "CreateStateMachine",
    "States.ALL before another Catch",
    code="InvalidDefinition",
    message="States.ALL",
    source=ERRORS,
)
def every_error_first(aws: RunningAws) -> None:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::dynamodb:getItem",
        "Arguments": {"TableName": "t", "Key": {}},
        "Next": "End",
    }
    catch = [{"ErrorEquals": [name], "Next": "End"} for name in ("States.ALL", "States.Timeout")]
    create(aws, {"First": {**task, "Catch": catch}, "End": END})


@refuses(
    SFN,
    "CreateStateMachine",
    "an error name of one's own under States.",
    code="InvalidDefinition",
    message="States.",
    source=LANGUAGE,
)
def a_reserved_error_name(aws: RunningAws) -> None:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::dynamodb:getItem",
        "Arguments": {"TableName": "t", "Key": {}},
        "Next": "End",
    }
    create(aws, {"First": {**task, "Catch": [{"ErrorEquals": ["States.LeaseLost"], "Next": "End"}]}, "End": END})


@refuses(SFN, "CreateStateMachine", "MaxDelaySeconds below IntervalSeconds", code="InvalidDefinition", source=ERRORS)
def a_delay_below_the_interval(aws: RunningAws) -> None:
    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 20, "MaxDelaySeconds": 10}]
    create(
        aws,
        one(
            Type="Task",
            Resource="arn:aws:states:::dynamodb:getItem",
            Arguments={"TableName": "t", "Key": {}},
            Retry=retry,
        ),
    )


@refuses(
    SFN, "CreateStateMachine", "seconds with a fraction", code="InvalidDefinition", message="Seconds", source=LANGUAGE
)
def a_fraction_of_a_second(aws: RunningAws) -> None:
    create(aws, one(Type="Wait", Seconds=1.5))


@refuses(
    SFN,
    "CreateStateMachine",
    "a variable set in a Map that an outer scope sets",
    code="InvalidDefinition",
    source=VARIABLES,
)
def a_variable_of_an_outer_scope(aws: RunningAws) -> None:
    inner = branch({"In": {"Type": "Pass", "Assign": {"count": 1}, "End": True}})
    create(aws, one(Type="Map", Items=[1], ItemProcessor=inner, Assign={"count": 2}))


@refuses(
    SFN,
    "CreateStateMachine",
    "an Express machine that waits for a token",
    code="InvalidDefinition",
    message="Express",
    source=QUOTAS,
)
def an_express_machine_that_waits(aws: RunningAws) -> None:
    arguments = {"QueueUrl": "q", "MessageBody": "{% $states.context.Task.Token %}"}
    create(
        aws,
        one(Type="Task", Resource="arn:aws:states:::sqs:sendMessage.waitForTaskToken", Arguments=arguments),
        kind="EXPRESS",
    )


@refuses(
    SFN,
    "CreateStateMachine",
    "a role that Step Functions cannot assume",
    code="AccessDeniedException",
    source=f"{API}, errors",
)
def a_role_of_another_service(aws: RunningAws) -> None:
    create(aws, {"End": END}, roleArn=aws.role("lambda.amazonaws.com"))


@refuses(
    SFN,
    "CreateStateMachine",
    "logging without a log group",
    code="InvalidLoggingConfiguration",
    source="Step Functions developer guide, Using CloudWatch Logs to log execution history",
)
def logging_to_nothing(aws: RunningAws) -> None:
    create(aws, {"End": END}, loggingConfiguration={"level": "ALL", "includeExecutionData": True})


@refuses(
    SFN,
    "CreateStateMachine",
    "a log group's ARN that does not end with :*",
    code="InvalidLoggingConfiguration",
    source=f"{API}, CloudWatchLogsLogGroup",
)
def logging_to_a_group_without_a_star(aws: RunningAws) -> None:
    group = {"cloudWatchLogsLogGroup": {"logGroupArn": "arn:aws:logs:us-east-1:123456789012:log-group:machines"}}
    create(aws, {"End": END}, loggingConfiguration={"level": "ALL", "destinations": [group]})


@refuses(
    SFN,
    "CreateStateMachine",
    "another definition under a name in use",
    code="StateMachineAlreadyExists",
    source=f"{API}, errors",
)
def a_name_in_use(aws: RunningAws) -> None:
    name, role = aws.fresh("machine"), aws.role("states.amazonaws.com")
    create(aws, {"End": END}, name=name, roleArn=role)
    create(aws, {"Other end": END}, name=name, roleArn=role)


# Starting


@refuses(SFN, "StartExecution", "a name above 80 characters", code="InvalidName", source=f"{API}, StartExecution")
def a_long_name(aws: RunningAws) -> None:
    # boto3 itself refuses 81 characters: this is the service's message to a client that does not
    aws.client(SFN).start_execution(stateMachineArn=create(aws, {"End": END}), name="a:b")


@refuses(
    SFN,
    "StartExecution",
    "the name of an execution that has ended",
    code="ExecutionAlreadyExists",
    source=f"{API}, StartExecution",
)
def the_name_of_an_execution_that_has_ended(aws: RunningAws) -> None:
    arn = create(aws, {"End": END})
    execution = aws.client(SFN).start_execution(stateMachineArn=arn, name="once")["executionArn"]
    eventually(lambda: aws.client(SFN).describe_execution(executionArn=execution)["status"] != "RUNNING")
    aws.client(SFN).start_execution(stateMachineArn=arn, name="once")


@refuses(
    SFN,
    "StartExecution",
    "a running execution's name with another input",
    code="ExecutionAlreadyExists",
    source=f"{API}, StartExecution",
)
def the_name_of_a_running_execution(aws: RunningAws) -> None:
    arn = create(aws, {"Wait": {"Type": "Wait", "Seconds": 20, "End": True}})
    for given in ("{}", '{"again": true}'):
        aws.client(SFN).start_execution(stateMachineArn=arn, name="once", input=given)


@refuses(
    SFN, "StartExecution", "an input that is no JSON", code="InvalidExecutionInput", source=f"{API}, StartExecution"
)
def an_input_that_is_no_json(aws: RunningAws) -> None:
    aws.client(SFN).start_execution(stateMachineArn=create(aws, {"End": END}), input="nothing")


@refuses(SFN, "StartExecution", "an input above 256 KiB", code="InvalidExecutionInput", source=QUOTAS)
def a_large_input(aws: RunningAws) -> None:
    # Fewer characters than boto3's limit, more bytes than the service's
    aws.client(SFN).start_execution(
        stateMachineArn=create(aws, {"End": END}), input=json.dumps("é" * 200_000, ensure_ascii=False)
    )


@refuses(
    SFN,
    "StartExecution",
    "a machine that does not exist",
    code="StateMachineDoesNotExist",
    source=f"{API}, StartExecution",
)
def a_machine_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(SFN).start_execution(stateMachineArn="arn:aws:states:us-east-1:123456789012:stateMachine:nowhere")


@refuses(
    SFN,
    "DescribeExecution",
    "an execution that does not exist",
    code="ExecutionDoesNotExist",
    source=f"{API}, DescribeExecution",
)
def an_execution_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(SFN).describe_execution(executionArn="arn:aws:states:us-east-1:123456789012:execution:nowhere:never")


@refuses(
    SFN, "DescribeExecution", "an Express execution", code="ExecutionDoesNotExist", source=f"{API}, DescribeExecution"
)
def an_express_execution(aws: RunningAws) -> None:
    arn = aws.client(SFN).start_execution(stateMachineArn=create(aws, {"End": END}, kind="EXPRESS"))["executionArn"]
    aws.client(SFN).describe_execution(executionArn=arn)


# Task tokens


@refuses(SFN, "SendTaskSuccess", "a token that no task has", code="InvalidToken", source=f"{API}, SendTaskSuccess")
def a_token_that_no_task_has(aws: RunningAws) -> None:
    aws.client(SFN).send_task_success(taskToken="nobody", output="{}")


@refuses(
    SFN, "SendTaskSuccess", "the token of a task that has ended", code="TaskTimedOut", source=f"{API}, SendTaskSuccess"
)
def the_token_of_a_task_that_has_ended(aws: RunningAws) -> None:
    token = _token(aws, seconds=1)
    time.sleep(1.5)
    aws.client(SFN).send_task_success(taskToken=token, output="{}")


@refuses(SFN, "SendTaskSuccess", "an output that is no JSON", code="InvalidOutput", source=f"{API}, SendTaskSuccess")
def an_output_that_is_no_json(aws: RunningAws) -> None:
    aws.client(SFN).send_task_success(taskToken=_token(aws), output="done")


@refuses(SFN, "SendTaskSuccess", "an output above 256 KiB", code="InvalidOutput", source=QUOTAS)
def a_large_output_for_a_token(aws: RunningAws) -> None:
    aws.client(SFN).send_task_success(taskToken=_token(aws), output=json.dumps("é" * 200_000, ensure_ascii=False))


def _token(aws: RunningAws, seconds: int = 20) -> str:
    url, _ = aws.queue()
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Arguments": {"QueueUrl": url, "MessageBody": "{% $states.context.Task.Token %}"},
        "TimeoutSeconds": seconds,
    }
    aws.client(SFN).start_execution(stateMachineArn=create(aws, one(**task)))
    received = eventually(lambda: aws.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=5).get("Messages"))
    return str(received[0]["Body"])


# Failures of an execution


@refuses(SFN, EXECUTION, "seconds with a fraction", code="States.QueryEvaluationError", source=LANGUAGE)
def a_wait_for_a_fraction(aws: RunningAws) -> None:
    run(aws, one(Type="Wait", Seconds="{% 3 / 2 %}"))


@refuses(SFN, EXECUTION, "negative seconds", code="States.QueryEvaluationError", source=LANGUAGE)
def a_negative_wait(aws: RunningAws) -> None:
    run(aws, one(Type="Wait", Seconds="{% 0 - 1 %}"))


@refuses(SFN, EXECUTION, "a timeout of no seconds", code="States.QueryEvaluationError", source=LANGUAGE)
def a_timeout_of_nothing(aws: RunningAws) -> None:
    arguments = {"TableName": "t", "Key": {}}
    run(
        aws,
        one(Type="Task", Resource="arn:aws:states:::dynamodb:getItem", Arguments=arguments, TimeoutSeconds="{% 0 %}"),
    )


@refuses(SFN, EXECUTION, "a condition that is no boolean", code="States.QueryEvaluationError", source=JSONATA)
def a_condition_that_is_no_boolean(aws: RunningAws) -> None:
    run(
        aws,
        {
            "Choose": {"Type": "Choice", "Choices": [{"Condition": "{% 1 %}", "Next": "End"}], "Default": "End"},
            "End": END,
        },
    )


@refuses(SFN, EXECUTION, "an error name that is no string", code="States.QueryEvaluationError", source=JSONATA)
def an_error_that_is_no_string(aws: RunningAws) -> None:
    run(aws, {"Fail": {"Type": "Fail", "Error": "{% 7 %}", "Cause": "seven"}})


@refuses(SFN, EXECUTION, "an expression without a result", code="States.QueryEvaluationError", source=JSONATA)
def an_expression_without_a_result(aws: RunningAws) -> None:
    run(aws, one(Type="Pass", Output="{% $states.input.nothing %}"), {})


@refuses(SFN, EXECUTION, "$eval", code="States.QueryEvaluationError", source=JSONATA)
def an_expression_made_at_run_time(aws: RunningAws) -> None:
    run(aws, one(Type="Pass", Output="{% $eval('1') %}"))


@refuses(SFN, EXECUTION, "items that are no array", code="States.QueryEvaluationError", source=LANGUAGE)
def items_that_are_no_array(aws: RunningAws) -> None:
    run(aws, one(Type="Map", Items="{% 'a' %}", ItemProcessor=branch({"In": END})))


@refuses(
    SFN,
    EXECUTION,
    "an output above 256 KiB",
    code="States.DataLimitExceeded",
    message="exceeding the maximum number",
    source=QUOTAS,
)
def a_large_output(aws: RunningAws) -> None:
    run(aws, one(Type="Pass", Output="{% $pad('', 262143, 'x') %}"))


@refuses(SFN, EXECUTION, "a variable above 256 KiB", code="States.DataLimitExceeded", source=VARIABLES)
def a_large_variable(aws: RunningAws) -> None:
    run(aws, one(Type="Pass", Assign={"long": "{% $pad('', 262143, 'x') %}"}))


@refuses(
    SFN, EXECUTION, "variables of one Assign above 256 KiB together", code="States.DataLimitExceeded", source=VARIABLES
)
def large_variables_together(aws: RunningAws) -> None:
    run(aws, one(Type="Pass", Assign=dict.fromkeys(("first", "second"), "{% $pad('', 140000, 'x') %}")))


@refuses(SFN, EXECUTION, "arguments above 256 KiB", code="States.DataLimitExceeded", source=QUOTAS)
def large_arguments(aws: RunningAws) -> None:
    arguments = {"StateMachineArn": create(aws, {"End": END}), "Input": {"long": "{% $pad('', 262143, 'x') %}"}}
    run(aws, one(Type="Task", Resource="arn:aws:states:::states:startExecution", Arguments=arguments))


@refuses(SFN, EXECUTION, "a function's answer above 256 KiB", code="States.DataLimitExceeded", source=QUOTAS)
def a_large_answer(aws: RunningAws) -> None:
    function = aws.function("def handler(event, context): return 'x' * 262143\n")
    run(aws, one(Type="Task", Resource="arn:aws:states:::lambda:invoke", Arguments={"FunctionName": function}))


@refuses(SFN, EXECUTION, "results of a Map above 256 KiB together", code="States.DataLimitExceeded", source=QUOTAS)
def large_results_of_a_map(aws: RunningAws) -> None:
    inner = branch({"In": {"Type": "Pass", "Output": "{% $pad('', 140000, 'x') %}", "End": True}})
    run(aws, one(Type="Map", Items=[1, 2], ItemProcessor=inner))


@refuses(SFN, EXECUTION, "States.DataLimitExceeded under States.ALL", code="States.DataLimitExceeded", source=ERRORS)
def too_much_data_under_every_error(aws: RunningAws) -> None:
    inner = branch({"In": {"Type": "Pass", "Output": "{% $pad('', 140000, 'x') %}", "End": True}})
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "End"}]
    run(
        aws,
        {"Map": {"Type": "Map", "Items": [1, 2], "ItemProcessor": inner, "Catch": catch, "Next": "End"}, "End": END},
    )


@refuses(SFN, EXECUTION, "more than 25,000 events", code="States.Runtime", message="25000", source=QUOTAS)
def too_many_events(aws: RunningAws) -> None:
    choice = {"Type": "Choice", "Choices": [{"Condition": "{% $n > 13000 %}", "Next": "End"}], "Default": "Count"}
    count = {"Type": "Pass", "Assign": {"n": "{% $n + 1 %}"}, "Next": "Enough"}
    run(
        aws,
        {"Begin": {"Type": "Pass", "Assign": {"n": 0}, "Next": "Enough"}, "Enough": choice, "Count": count, "End": END},
    )


not_modelled(
    SFN,
    "StartExecution",
    "more starts than the token bucket holds",
    code="ThrottlingException",
    source=QUOTAS,
    why="800 to 1,300 starts at once are far beyond what Joiner sends; `joiner local knob mishaps/set` refuses any "
    "call",
)
not_modelled(
    SFN,
    EXECUTION,
    "more than 10 MiB in all variables of an execution",
    code="States.DataLimitExceeded",
    source=VARIABLES,
    why="checked, but without a test: our machines hold 20 variables of 256 KiB at most",
)
not_modelled(
    SFN,
    EXECUTION,
    "an expression that takes too long or too much memory",
    code="States.QueryEvaluationError",
    source=JSONATA,
    why="AWS documents no numbers",
)
not_modelled(
    SFN,
    "CreateStateMachine",
    "a role that may not write to the log group",
    code="AccessDeniedException",
    source="Step Functions developer guide, Using CloudWatch Logs to log execution history",
    why="log deliveries are not made through CloudWatch Logs' API here",
)
nothing_known(
    SFN, "AWS::StepFunctions::StateMachine", why="CloudFormation calls CreateStateMachine, whose refusals are listed"
)


@refuses(
    SFN, "ListExecutions", "an Express machine", code="StateMachineTypeNotSupported", source=f"{API}, ListExecutions"
)
def executions_of_an_express_machine(aws: RunningAws) -> None:
    aws.client(SFN).list_executions(stateMachineArn=create(aws, {"End": END}, kind="EXPRESS"))


@refuses(
    SFN,
    "GetExecutionHistory",
    "an execution that does not exist",
    code="ExecutionDoesNotExist",
    source=f"{API}, GetExecutionHistory",
)
def the_history_of_no_execution(aws: RunningAws) -> None:
    aws.client(SFN).get_execution_history(executionArn="arn:aws:states:us-east-1:123456789012:execution:nowhere:never")
