"""Every AWS call that Joiner makes, by service: from functions and adapters, from state machines, and the types of the
template.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from botocore import xform_name
from botocore.session import get_session

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = ("functions", "layers/joiner/python/joiner/adapters", "cli/joiner_cli")
SERVICES: Final = (
    "cloudformation",
    "dynamodb",
    "ec2",
    "eks",
    "iam",
    "kms",
    "lambda",
    "pricing",
    "s3",
    "savingsplans",
    "ssm",
    "stepfunctions",
    "sts",
)
"""The services for which a client is created; `clients` finds any other."""

ELSEWHERE: Final[Mapping[tuple[str, str], str]] = {
    ("ec2", "CreateFleet"): "tests/local/test_refusals_of_launches.py",
    ("ec2", "CreateLaunchTemplate"): "tests/local/test_refusals_of_launches.py",
    ("ec2", "CreateTags"): "tests/local/test_refusals_of_launches.py",
    ("ec2", "RunInstances"): "tests/local/test_refusals_of_launches.py",
    ("ec2", "DescribeCapacityReservations"): "tests/local/test_local_capacity_reservations.py",
    ("ec2", "DescribePlacementGroups"): "tests/local/test_launched_options.py",
    ("ec2", "DescribeSnapshots"): "tests/local/test_refusals_of_volumes.py",
    ("ec2", "GetEbsDefaultKmsKeyId"): "tests/local/test_refusals_of_volumes.py",
    ("ec2", "GetEbsEncryptionByDefault"): "tests/local/test_refusals_of_volumes.py",
}
"""Calls whose refusals have a test file of their own."""

SERVICE_OF_TYPE: Final = {
    "ApiGatewayV2": "apigatewayv2",
    "CloudFormation": "cloudformation",
    "CloudWatch": "cloudwatch",
    "DynamoDB": "dynamodb",
    "EC2": "ec2",
    "EKS": "eks",
    "Events": "events",
    "IAM": "iam",
    "Lambda": "lambda",
    "Logs": "logs",
    "S3": "s3",
    "SQS": "sqs",
    "SSM": "ssm",
    "Scheduler": "scheduler",
    "StepFunctions": "stepfunctions",
}


@cache
def operations() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the possible services and operations of each method of boto3's clients."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for service in SERVICES:
        for operation in get_session().get_service_model(service).operation_names:
            found[xform_name(operation)].append((service, operation))
    return {method: tuple(calls) for method, calls in found.items()}


def _names(tree: ast.AST) -> Iterator[str]:
    """Return names of attributes, and strings: paginators are named by strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _trees() -> Iterator[ast.AST]:
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def of_code() -> set[tuple[str, str]]:
    """Return service and operation of every method of boto3 that our code names."""
    return {call for tree in _trees() for name in _names(tree) for call in operations().get(name, ())}


def clients() -> set[str]:
    """Return the services for which our code creates a client."""
    found = set()
    for tree in _trees():
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            name = (
                called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            )
            if isinstance(node, ast.Call) and name == "client" and node.args and isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value))
    return found


def of_machines(definition: str) -> set[tuple[str, str]]:
    """Return service and operation of every integration that a state machine's definition names."""
    found = set()
    for service, action in re.findall(r":states:::(?:aws-sdk:)?([a-z0-9]+):([A-Za-z]+)", definition):
        boto = {"states": "stepfunctions", "sfn": "stepfunctions"}.get(service, service)
        found.add((boto, action[:1].upper() + action[1:]))
    return found


def of_template(template: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return service and type of every resource; custom resources are one type."""
    types = {str(each["Type"]) for each in template["Resources"].values()}
    return {
        ("cloudformation", "a custom resource")
        if kind.startswith("Custom::")
        else (SERVICE_OF_TYPE[kind.split("::")[1]], kind)
        for kind in types
    }
