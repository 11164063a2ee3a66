"""Step Functions: task tokens, failures of executions and queries about them."""

import json
import time

from tests.local.refusals.refused_calls import not_modelled, nothing_known, refuses
from tests.local.refusals.state_machine_refusals import (
    API,
    END,
    ERRORS,
    EXECUTION,
    JSONATA,
    LANGUAGE,
    QUOTAS,
    SFN,
    VARIABLES,
    branch,
    create,
    one,
    run,
)
from tests.local.running_aws import RunningAws, eventually


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
    why="800 to 1,300 starts at once are far beyond what Joiner sends; `joiner local knob faults/set` refuses any call",
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
nothing_known(SFN, "ListStateMachines", why="it takes the size of a page and the token of the page before, no more")


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
