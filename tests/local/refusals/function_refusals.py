"""Lambda: what it refuses when a function is created, updated or invoked, and how it stops a function that exceeds its
limits.
"""

import io
import json
import zipfile
from typing import Any, Final

from tests.local.refusals.refused_calls import Refused, not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws, zipped

LAMBDA: Final = "lambda"
INVALID: Final = "InvalidParameterValueException"
QUOTAS: Final = "Lambda developer guide, Lambda quotas"
API: Final = "Lambda API reference"
ECHO: Final = "def handler(event, context): return event\n"
HOG: Final = (
    "def handler(event, context):\n    held = bytearray(event * 1024 * 1024)\n    held[::4096] = b'x' * "
    "len(held[::4096])\n    return 1\n"
)


def invoke(aws: RunningAws, name: str, event: Any = None) -> None:
    """Invoke a function and wait; raise the function's error."""
    answer = aws.client(LAMBDA).invoke(FunctionName=name, Payload=json.dumps(event))
    payload = json.loads(answer["Payload"].read() or "null")
    if "FunctionError" in answer:
        raise Refused(payload["errorType"], payload["errorMessage"])


# Creating and changing


@refuses(
    LAMBDA,
    "CreateFunction",
    "environment variables above 4 KB",
    code=INVALID,
    message="exceeded the 4KB limit",
    source=QUOTAS,
)
def a_large_environment(aws: RunningAws) -> None:
    aws.function(ECHO, Environment={"Variables": {"LONG": "x" * 4090}})


@refuses(
    LAMBDA,
    "CreateFunction",
    "a reserved environment variable",
    code=INVALID,
    message="Reserved keys used in this request: AWS_REGION",
    source="Lambda developer guide, Defined runtime environment variables",
)
def a_reserved_variable(aws: RunningAws) -> None:
    aws.function(ECHO, Environment={"Variables": {"AWS_REGION": "eu-west-1"}})


@refuses(
    LAMBDA, "CreateFunction", "six layers", code=INVALID, message="Cannot reference more than 5 layers", source=QUOTAS
)
def six_layers(aws: RunningAws) -> None:
    made = (
        aws.client(LAMBDA).publish_layer_version(LayerName=aws.fresh("l"), Content={"ZipFile": zipped(a="")})
        for _ in range(6)
    )
    aws.function(ECHO, Layers=[each["LayerVersionArn"] for each in made])


@refuses(
    LAMBDA,
    "CreateFunction",
    "more than 250 MB unzipped with its layers",
    code=INVALID,
    message="Unzipped size",
    source=QUOTAS,
)
def a_large_package(aws: RunningAws) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writing:
        for number in range(27):
            writing.writestr(f"part{number}", bytes(10_000_000))
    layer = aws.client(LAMBDA).publish_layer_version(LayerName=aws.fresh("l"), Content={"ZipFile": archive.getvalue()})
    aws.function(ECHO, Layers=[layer["LayerVersionArn"]])


@refuses(
    LAMBDA,
    "CreateFunction",
    "a role that Lambda cannot assume",
    code=INVALID,
    message="cannot be assumed by Lambda",
    source=API,
)
def a_role_of_another_service(aws: RunningAws) -> None:
    aws.function(ECHO, Role=aws.role("states.amazonaws.com"))


@refuses(
    LAMBDA, "CreateFunction", "a name in use", code="ResourceConflictException", message="already exist", source=API
)
def a_name_in_use(aws: RunningAws) -> None:
    name = aws.function(ECHO)
    role, code = aws.role("lambda.amazonaws.com"), {"ZipFile": zipped(index="")}
    aws.client(LAMBDA).create_function(
        FunctionName=name, Runtime="python3.13", Handler="index.handler", Role=role, Code=code
    )


@refuses(
    LAMBDA,
    "PutFunctionConcurrency",
    "what leaves less than 100 to functions without a reservation",
    code=INVALID,
    message="decreases account's UnreservedConcurrentExecution below its minimum value of [100]",
    source="Lambda developer guide, Configuring reserved concurrency",
)
def all_of_the_concurrency(aws: RunningAws) -> None:
    aws.client(LAMBDA).put_function_concurrency(FunctionName=aws.function(ECHO), ReservedConcurrentExecutions=950)


@refuses(
    LAMBDA,
    "PutFunctionConcurrency",
    "any reservation in an account whose quota is 10",
    code=INVALID,
    message="below its minimum value of [10]",
    source="aws-samples/sample-one-click-generative-ai-solutions#3",
)
def concurrency_of_a_new_account(aws: RunningAws) -> None:
    before = aws.knob("concurrency-quota", executions=10)["before"]
    try:
        aws.client(LAMBDA).put_function_concurrency(FunctionName=aws.function(ECHO), ReservedConcurrentExecutions=1)
    finally:
        aws.knob("concurrency-quota", executions=before)


@refuses(
    LAMBDA,
    "CreateEventSourceMapping",
    "a queue whose visibility timeout is shorter than the function's timeout",
    code=INVALID,
    message="Queue visibility timeout: 10 seconds is less than Function timeout: 15 seconds",
    source="Lambda developer guide, Using Lambda with Amazon SQS",
)
def a_short_visibility_timeout(aws: RunningAws) -> None:
    _, queue = aws.queue(VisibilityTimeout="10")
    aws.client(LAMBDA).create_event_source_mapping(EventSourceArn=queue, FunctionName=aws.function(ECHO))


@refuses(
    LAMBDA,
    "CreateEventSourceMapping",
    "a batch of 11 messages without a window",
    code=INVALID,
    message="batch window",
    source="Lambda developer guide, Using Lambda with Amazon SQS",
)
def a_large_batch_without_a_window(aws: RunningAws) -> None:
    _, queue = aws.queue(VisibilityTimeout="60")
    aws.client(LAMBDA).create_event_source_mapping(EventSourceArn=queue, FunctionName=aws.function(ECHO), BatchSize=11)


@refuses(
    LAMBDA, "AddPermission", "a statement id in use", code="ResourceConflictException", source=f"{API}, AddPermission"
)
def a_statement_id_in_use(aws: RunningAws) -> None:
    name = aws.function(ECHO)
    for _ in range(2):
        aws.client(LAMBDA).add_permission(
            FunctionName=name, StatementId="once", Action="lambda:InvokeFunction", Principal="events.amazonaws.com"
        )


# Invoking


@refuses(
    LAMBDA,
    "Invoke",
    "a request above 6 MB",
    code="RequestTooLargeException",
    message="must be smaller than",
    source=QUOTAS,
)
def a_large_request(aws: RunningAws) -> None:
    invoke(aws, aws.function(ECHO), "x" * 6_291_456)


@refuses(
    LAMBDA,
    "Invoke",
    "an event above 1 MB",
    code="RequestTooLargeException",
    message="must be smaller than",
    source=QUOTAS,
)
def a_large_event(aws: RunningAws) -> None:
    aws.client(LAMBDA).invoke(
        FunctionName=aws.function(ECHO), InvocationType="Event", Payload=json.dumps("x" * 1_048_576)
    )


@refuses(
    LAMBDA,
    "Invoke",
    "an answer above 6 MB",
    code="Function.ResponseSizeTooLarge",
    message="exceeded maximum",
    source=QUOTAS,
)
def a_large_answer(aws: RunningAws) -> None:
    invoke(aws, aws.function("def handler(event, context): return 'x' * 6300000\n"))


@refuses(LAMBDA, "Invoke", "a function that does not exist", code="ResourceNotFoundException", source=f"{API}, Invoke")
def a_function_that_does_not_exist(aws: RunningAws) -> None:
    invoke(aws, "nowhere")


@refuses(
    LAMBDA,
    "Invoke",
    "more than the reserved concurrency",
    code="TooManyRequestsException",
    message="Rate Exceeded",
    source="Lambda developer guide, Configuring reserved concurrency",
)
def more_than_the_reserved_concurrency(aws: RunningAws) -> None:
    name = aws.function(ECHO)
    aws.client(LAMBDA).put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    invoke(aws, name)


@refuses(
    LAMBDA,
    "Invoke",
    "more time than Timeout",
    code="Sandbox.Timedout",
    message="Task timed out after 1.00 seconds",
    source=QUOTAS,
)
def more_time_than_the_timeout(aws: RunningAws) -> None:
    invoke(aws, aws.function("import time\ndef handler(event, context): time.sleep(5)\n", Timeout=1))


@refuses(
    LAMBDA,
    "Invoke",
    "more memory than MemorySize",
    code="Runtime.ExitError",
    message="Runtime exited with error: signal: killed",
    source="Lambda developer guide, Troubleshoot invocation issues",
)
def more_memory_than_the_memory_size(aws: RunningAws) -> None:
    invoke(aws, aws.function(HOG, MemorySize=256), 300)


@refuses(
    LAMBDA,
    "Invoke",
    "more memory than MemorySize for a moment",
    code="Runtime.ExitError",
    message="signal: killed",
    source="Lambda developer guide, Troubleshoot invocation issues",
)
def more_memory_for_a_moment(aws: RunningAws) -> None:
    invoke(
        aws,
        aws.function(
            f"{HOG}\nhandler_of_all = handler\ndef handler(e, c): handler_of_all(e, c); return 'freed'\n",
            MemorySize=128,
        ),
        200,
    )


@refuses(
    LAMBDA,
    "Invoke",
    "code that cannot be imported",
    code="Runtime.ImportModuleError",
    source="Lambda developer guide, Troubleshooting",
)
def code_that_cannot_be_imported(aws: RunningAws) -> None:
    invoke(aws, aws.function("import nothing_of_that_name\n"))


not_modelled(
    LAMBDA,
    "Invoke",
    "10 seconds of initialisation",
    code="the initialisation is repeated within the function's timeout",
    source="Lambda developer guide, Lambda execution environment lifecycle",
    why="a slow initialisation counts against the timeout at once",
)
not_modelled(
    LAMBDA,
    "Invoke",
    "more scaling than 1,000 environments in 10 seconds",
    code="TooManyRequestsException",
    source="Lambda developer guide, Understanding Lambda function scaling",
    why="one machine starts a few environments at a time",
)
not_modelled(
    LAMBDA,
    "AddPermission",
    "a resource policy above 20 KB",
    code="PolicyLengthExceededException",
    source=QUOTAS,
    why="our functions have one permission each",
)
nothing_known(
    LAMBDA,
    "AWS::Lambda::Function",
    "AWS::Lambda::Version",
    "AWS::Lambda::LayerVersion",
    why="the refusals of Lambda's API are listed",
)
nothing_known(
    LAMBDA, "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission", why="the refusals of Lambda's API are listed"
)
