"""Lambda as AWS documents it: a function's environment, its failures, its versions, and what the API refuses."""

import base64
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.running_aws import RunningAws, eventually, zipped

pytestmark = pytest.mark.local

ECHO = "def handler(event, context):\n    return event\n"


def invoke(aws: RunningAws, name: str, event: Any = None, **more: Any) -> tuple[Any, dict[str, Any]]:
    answer = aws.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event), **more)
    return json.loads(answer["Payload"].read() or "null"), answer


def test_a_function_answers_with_what_its_handler_returns(local_aws: RunningAws) -> None:
    payload, answer = invoke(local_aws, local_aws.function(ECHO), {"pods": 17})

    assert payload == {"pods": 17}
    assert (answer["StatusCode"], answer["ExecutedVersion"], "FunctionError" in answer) == (200, "$LATEST", False)


def test_a_warm_invocation_takes_milliseconds(local_aws: RunningAws) -> None:
    name = local_aws.function(ECHO)
    invoke(local_aws, name)

    def milliseconds() -> float:
        begun = time.perf_counter()
        invoke(local_aws, name)
        return (time.perf_counter() - begun) * 1000

    # 8 on an idle machine; a delayed acknowledgement would make each of them 40, however many there are
    assert any(milliseconds() < 35 for _ in range(200))


def test_the_cpu_time_of_a_function_is_counted_apart_from_its_waiting(local_aws: RunningAws) -> None:
    works = """
import time
def handler(event, context):
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
"""
    working = local_aws.function(works)
    waiting = local_aws.function("import time\ndef handler(event, context):\n    time.sleep(1.5)\n")
    for name in (working, waiting):
        invoke(local_aws, name)
    started = local_aws.knob("function-cpu")["seconds"]

    for name in (working, waiting):
        invoke(local_aws, name)

    used = {name: local_aws.knob("function-cpu")["seconds"][name] - started[name] for name in (working, waiting)}
    assert used[working] > 0.19  # it is the difference of two sums that are rounded to milliseconds
    assert used[waiting] < 1.0  # a loaded machine starts a sandbox twice, which takes CPU time, too


def test_a_function_has_the_cpu_of_its_memory_after_the_knob_says_so(local_aws: RunningAws) -> None:
    """A paused process is continued by SIGCONT, which the function counts."""
    code = """
import signal, time
continued = []
signal.signal(signal.SIGCONT, lambda *_: continued.append(1))
def handler(event, context):
    continued.clear()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    return len(continued)
"""
    name = local_aws.function(code, MemorySize=128, Timeout=60)

    assert invoke(local_aws, name)[0] == 0
    local_aws.knob("cpu-shares", on=True)
    try:
        assert invoke(local_aws, name)[0] > 0
    finally:
        local_aws.knob("cpu-shares", on=False)
    assert invoke(local_aws, name)[0] == 0


def test_a_function_acts_as_its_own_role(local_aws: RunningAws) -> None:
    role = local_aws.role("lambda.amazonaws.com")
    name = local_aws.function(
        "import boto3\ndef handler(event, context):\n    return boto3.client('sts').get_caller_identity()['Arn']\n",
        Role=role,
    )

    payload, _ = invoke(local_aws, name)
    assert payload == f"arn:aws:sts::123456789012:assumed-role/{role.rsplit('/', 1)[-1]}/{name}"


def test_code_and_layers_are_where_lambda_puts_them_and_the_code_wins(local_aws: RunningAws) -> None:
    layers = [
        local_aws.client("lambda").publish_layer_version(
            LayerName=local_aws.fresh("layer"), Content={"ZipFile": zipped(**files)}
        )
        for files in ({"python/first.py": "who = 1", "python/both.py": "who = 1"}, {"python/both.py": "who = 2"})
    ]
    name = local_aws.function(
        "import first, both\ndef handler(event, context):\n    return [first.who, both.who]\n",
        Layers=[layer["LayerVersionArn"] for layer in layers],
    )

    assert invoke(local_aws, name)[0] == [1, 2]


def test_only_a_package_that_the_knob_names_is_imported_before_the_sandbox_exists(local_aws: RunningAws) -> None:
    layer = local_aws.client("lambda").publish_layer_version(
        LayerName=local_aws.fresh("layer"),
        Content={
            "ZipFile": zipped(
                **{
                    "python/library/__init__.py": "",
                    "python/library/inner/__init__.py": "",
                    "python/library/inner/part.py": "import os\nimporter = os.getpid()\n",
                    "python/library/broken.py": "import os\nraise ValueError(f'broken in {os.getpid()}')\n",
                }
            )
        },
    )
    code = """
import os, sys
def handler(event, context):
    known = sorted(name for name in sys.modules if name.startswith('library'))
    from library.inner import part
    try:
        import library.broken
    except ValueError as error:
        return {'known': known, 'own': part.importer == os.getpid(), 'broken': str(error) == f'broken in {os.getpid()}'}
"""

    def answer() -> Any:
        return invoke(local_aws, local_aws.function(code, Layers=[layer["LayerVersionArn"]]))[0]

    cold = answer()
    local_aws.knob("preload", packages=["library", "missing"])
    preloaded = answer()
    local_aws.knob("preload", packages=[])

    assert cold == {"known": [], "own": True, "broken": True}
    assert preloaded == {"known": ["library", "library.inner", "library.inner.part"], "own": False, "broken": True}
    assert answer() == cold


def test_the_runtime_has_boto3_and_nothing_that_happens_to_be_installed_here(local_aws: RunningAws) -> None:
    name = local_aws.function("def handler(event, context):\n    return __import__(event).__name__\n")

    assert invoke(local_aws, name, "boto3")[0] == "boto3"
    for missing in ("joiner", "kubernetes", "yaml", "pytest"):
        payload, answer = invoke(local_aws, name, missing)
        assert (payload["errorType"], answer["FunctionError"]) == ("ModuleNotFoundError", "Unhandled")


def test_an_exception_is_an_error_of_its_class_with_its_trace_in_the_log(local_aws: RunningAws) -> None:
    name = local_aws.function(
        "class LeaseLost(Exception): pass\ndef handler(event, context):\n    print('before')\n    raise "
        "LeaseLost('number 3')\n"
    )

    payload, answer = invoke(local_aws, name, LogType="Tail")
    log = base64.b64decode(answer["LogResult"]).decode()
    assert (payload["errorType"], payload["errorMessage"], answer["FunctionError"]) == (
        "LeaseLost",
        "number 3",
        "Unhandled",
    )
    assert "before" in log
    assert "START RequestId" in log


@pytest.mark.parametrize(
    ("code", "settings", "error"),
    [
        ("import nowhere\n", {}, "Runtime.ImportModuleError"),
        ("x = 1\n", {}, "Runtime.HandlerNotFound"),
        ("import os\ndef handler(event, context):\n    os._exit(3)\n", {}, "Runtime.ExitError"),
        ("import time\ndef handler(event, context):\n    time.sleep(9)\n", {"Timeout": 1}, "Sandbox.Timedout"),
    ],
)
def test_a_function_that_cannot_answer_fails_as_lambda_names_it(
    local_aws: RunningAws, code: str, settings: dict[str, Any], error: str
) -> None:
    payload, answer = invoke(local_aws, local_aws.function(code, **settings))

    assert (payload["errorType"], answer["FunctionError"]) == (error, "Unhandled")


def test_the_next_invocation_after_a_crash_is_served_by_a_new_sandbox(local_aws: RunningAws) -> None:
    name = local_aws.function("import os\ndef handler(event, context):\n    return os._exit(1) if event else 'well'\n")
    invoke(local_aws, name, event=True)

    assert invoke(local_aws, name)[0] == "well"


def test_a_function_whose_idle_sandbox_the_knob_ends_starts_cold(local_aws: RunningAws) -> None:
    name = local_aws.function("import os\n\ndef handler(event, context):\n    return os.getpid()\n")
    first, again = invoke(local_aws, name)[0], invoke(local_aws, name)[0]

    ended = local_aws.knob("sandboxes/end")["ended"]

    assert first == again
    assert ended >= 1
    assert invoke(local_aws, name)[0] != first


def test_concurrent_invocations_run_at_the_same_time(local_aws: RunningAws) -> None:
    name = local_aws.function("import time\ndef handler(event, context):\n    time.sleep(1)\n    return time.time()\n")

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda _: invoke(local_aws, name)[0], range(2)))
    assert abs(ends[0] - ends[1]) < 0.9


def test_a_crowd_of_invocations_is_served_by_few_sandboxes(local_aws: RunningAws) -> None:
    name = local_aws.function(
        "import os, time\ndef handler(event, context):\n    time.sleep(0.02)\n    return os.getpid()\n"
    )

    with ThreadPoolExecutor(40) as pool:
        processes = set(pool.map(lambda _: invoke(local_aws, name)[0], range(80)))
    assert len(processes) <= 20


def test_beyond_its_reserved_concurrency_a_function_is_throttled(local_aws: RunningAws) -> None:
    name = local_aws.function("import time\ndef handler(event, context):\n    time.sleep(1)\n")
    local_aws.client("lambda").put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=1)

    def code(_: int) -> str:
        try:
            invoke(local_aws, name)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "served"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(code, range(2))) == ["TooManyRequestsException", "served"]


def test_a_published_version_stays_as_it_was_and_an_alias_can_move(local_aws: RunningAws) -> None:
    api, name = local_aws.client("lambda"), local_aws.function("def handler(event, context):\n    return 'old'\n")
    first = api.publish_version(FunctionName=name)
    api.create_alias(FunctionName=name, Name="live", FunctionVersion=first["Version"])
    api.update_function_code(
        FunctionName=name, ZipFile=zipped(**{"index.py": "def handler(event, context):\n    return 'new'\n"})
    )

    assert first["FunctionArn"].endswith(f":function:{name}:1")
    assert [invoke(local_aws, each)[0] for each in (first["FunctionArn"], f"{name}:live", name)] == [
        "old",
        "old",
        "new",
    ]

    second = api.publish_version(FunctionName=name)
    api.update_alias(FunctionName=name, Name="live", FunctionVersion=second["Version"])
    api.delete_function(FunctionName=name, Qualifier="1")
    api.update_function_configuration(FunctionName=name, Description="changed")
    assert invoke(local_aws, f"{name}:live")[0] == "new"
    assert api.publish_version(FunctionName=name)["Version"] == "3"  # numbers are not used again


def test_changed_settings_take_effect_at_the_next_invocation(local_aws: RunningAws) -> None:
    api = local_aws.client("lambda")
    name = local_aws.function(
        "import os\ndef handler(event, context):\n    return os.environ['MODE']\n",
        Environment={"Variables": {"MODE": "a"}},
    )
    before = invoke(local_aws, name)[0]
    api.update_function_configuration(FunctionName=name, Environment={"Variables": {"MODE": "b"}})

    assert (before, invoke(local_aws, name)[0]) == ("a", "b")


def test_settings_are_kept_as_given(local_aws: RunningAws) -> None:
    _, dead_letters = local_aws.queue()
    settings = {
        "Architectures": ["arm64"],
        "EphemeralStorage": {"Size": 1024},
        "TracingConfig": {"Mode": "Active"},
        "LoggingConfig": {"LogFormat": "JSON", "LogGroup": local_aws.fresh("/joiner/logs")},
        "DeadLetterConfig": {"TargetArn": dead_letters},
        "MemorySize": 256,
    }
    configuration = local_aws.client("lambda").get_function_configuration(
        FunctionName=local_aws.function(ECHO, **settings)
    )

    assert {name: configuration[name] for name in settings} == settings


def test_what_a_function_prints_is_in_its_log_group_and_embedded_metrics_are_metrics(local_aws: RunningAws) -> None:
    namespace, group = local_aws.fresh("Joiner"), local_aws.fresh("/joiner/logs")
    metric = {"_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [
        {"Namespace": namespace, "Dimensions": [["function"]], "Metrics": [{"Name": "Launched", "Unit": "Count"}]}
    ]}, "function": "launch", "Launched": 3}  # fmt: skip
    name = local_aws.function(
        f"import json\ndef handler(event, context):\n    print('a line')\n    print(json.dumps({metric!r}))\n",
        LoggingConfig={"LogGroup": group},
    )
    invoke(local_aws, name)

    def lines() -> list[str]:
        groups = local_aws.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        events = local_aws.client("logs").filter_log_events(logGroupName=group)["events"] if groups else []
        return [event["message"] for event in events if event["message"] == "a line"]

    assert eventually(lines) == ["a line"]
    listed = eventually(lambda: local_aws.client("cloudwatch").list_metrics(Namespace=namespace)["Metrics"])
    assert [(metric["MetricName"], metric["Dimensions"]) for metric in listed] == [
        ("Launched", [{"Name": "function", "Value": "launch"}])
    ]


def test_an_event_that_fails_three_times_is_a_dead_letter(local_aws: RunningAws) -> None:
    url, arn = local_aws.queue()
    name = local_aws.function(
        "def handler(event, context):\n    raise ValueError('never')\n", DeadLetterConfig={"TargetArn": arn}
    )
    answer = local_aws.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b'{"id": 1}')

    received = local_aws.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"])[
        "Messages"
    ]
    assert answer["StatusCode"] == 202
    assert [json.loads(message["Body"]) for message in received] == [{"id": 1}]
    assert "never" in received[0]["MessageAttributes"]["ErrorMessage"]["StringValue"]


def test_the_destination_on_failure_gets_the_event_with_the_answer(local_aws: RunningAws) -> None:
    url, arn = local_aws.queue()
    name = local_aws.function("def handler(event, context):\n    raise ValueError('never')\n")
    local_aws.client("lambda").put_function_event_invoke_config(
        FunctionName=name, MaximumRetryAttempts=0, DestinationConfig={"OnFailure": {"Destination": arn}}
    )
    local_aws.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b'{"id": 1}')

    (message,) = local_aws.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    record = json.loads(message["Body"])
    assert (record["requestPayload"], record["responsePayload"]["errorType"]) == ({"id": 1}, "ValueError")
    assert record["requestContext"]["approximateInvokeCount"] == 1


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"Timeout": 901}, "Timeout"),
        ({"MemorySize": 20000}, "MemorySize"),
        ({"Runtime": "python2.7"}, "runtime"),
        ({"Handler": "handler"}, "handler"),
        ({"Environment": {"Variables": {"AWS_REGION": "x"}}}, "Reserved keys"),
        ({"Environment": {"Variables": {"LONG": "x" * 4096}}}, "4KB"),
        ({"Role": "arn:aws:iam::123456789012:role/nobody"}, "cannot be assumed"),
    ],
)
def test_settings_that_lambda_refuses_are_refused(
    local_aws: RunningAws, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ClientError, match=complaint) as refused:
        local_aws.function(ECHO, **settings)
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValueException"


def test_a_role_that_trusts_another_service_is_refused(local_aws: RunningAws) -> None:
    with pytest.raises(ClientError, match="cannot be assumed by Lambda"):
        local_aws.function(ECHO, Role=local_aws.role("states.amazonaws.com"))


def test_a_name_in_use_is_refused(local_aws: RunningAws) -> None:
    api, name = local_aws.client("lambda"), local_aws.function(ECHO)
    role = api.get_function_configuration(FunctionName=name)["Role"]
    with pytest.raises(api.exceptions.ResourceConflictException):
        api.create_function(
            FunctionName=name, Role=role, Runtime="python3.11", Handler="i.h", Code={"ZipFile": zipped(**{"i.py": ""})}
        )


def test_a_function_that_is_not_there_is_not_found(local_aws: RunningAws) -> None:
    with pytest.raises(local_aws.client("lambda").exceptions.ResourceNotFoundException):
        invoke(local_aws, "nowhere")


def test_no_sandbox_outlives_a_server_that_is_killed(own_aws: tuple[RunningAws, subprocess.Popen[str]]) -> None:
    aws, server = own_aws
    process, _ = invoke(aws, aws.function("import os\ndef handler(event, context):\n    return os.getpid()\n"))
    assert Path(f"/proc/{process}").exists()

    server.kill()
    eventually(lambda: not Path(f"/proc/{process}").exists())
