"""The deployed functions run on the Python that the stack printed, with the layers that were packed for it."""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.stack.cdk_deployment import SETTINGS
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from joiner_local.tooling.function_python import find, named_in

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.denied("the probe has the role of plan_capacity, which may write the log of plan_capacity only"),
]

PROBE = """
import sys

import highspy
import msgspec
import numpy

def handler(event, context):
    return {"python": sys.version.split()[0], "sum": int(numpy.array(msgspec.json.decode("[1, 2]")).sum())}
"""


@pytest.fixture
def python(stack: LocalStack, printed: list[str]) -> str:
    """The version that the stack printed when it deployed, such as ``3.13.0``."""
    assert stack.is_running
    versions = [match[1] for line in printed if (match := re.match(r"functions run on Python (\S+)", line))]
    assert versions
    return str(versions[-1])


@pytest.fixture
def probe(stack: LocalStack) -> Iterator[str]:
    """A function with the runtime, the layers and the role of the function that plans."""
    functions = stack.client("lambda")
    like = next(each for each in functions.list_functions()["Functions"] if "PlanCapacity" in each["FunctionName"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("probe.py", PROBE)
    functions.create_function(
        FunctionName="probe",
        Runtime=like["Runtime"],
        Role=like["Role"],
        Handler="probe.handler",
        Code={"ZipFile": packed.getvalue()},
        Layers=[each["Arn"] for each in like["Layers"]],
        Timeout=30,
        MemorySize=512,
    )
    yield "probe"
    functions.delete_function(FunctionName="probe")


def test_the_deployment_ran_on_the_python_that_was_printed(stack: LocalStack, python: str) -> None:
    logs = stack.client("logs")
    groups = [
        each["logGroupName"]
        for page in logs.get_paginator("describe_log_groups").paginate()
        for each in page["logGroups"]
    ]
    began = {
        event["message"].strip()
        for group in groups
        for event in logs.filter_log_events(logGroupName=group, filterPattern="INIT_START")["events"]
    }
    runtimes = {each["Runtime"] for each in stack.client("lambda").list_functions()["Functions"]}

    assert began == {f"INIT_START Runtime Version: python:{python}"}
    assert runtimes == {f"python{python.rpartition('.')[0]}"}


def test_a_function_with_the_deployed_layers_runs_on_that_python(stack: LocalStack, python: str, probe: str) -> None:
    answer: dict[str, Any] = stack.client("lambda").invoke(FunctionName=probe, Payload=b"{}")

    assert json.loads(answer["Payload"].read()) == {"python": python, "sum": 3}


def test_it_is_the_one_that_the_settings_name(python: str) -> None:
    assert python == find(named_in(REPOSITORY / "clusters" / f"{SETTINGS}.yaml")).version
