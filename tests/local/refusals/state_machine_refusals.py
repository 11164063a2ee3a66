"""Step Functions: what it refuses when a machine is created, started or called back, and failures of executions."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.local.refusals.refused_calls import Refused, refuses
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
