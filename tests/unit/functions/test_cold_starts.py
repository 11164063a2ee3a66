"""Functions on the way from a pod to its node create their AWS clients while Lambda initializes a sandbox."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COUNT = """
from functions.{} import handler
from joiner.adapters import environment
print(environment.client.cache_info().currsize)
"""
IN_LAMBDA = {"AWS_LAMBDA_FUNCTION_NAME": "joiner-any", "AWS_REGION": "us-east-1"}


def clients_after_import(function: str, variables: Mapping[str, str]) -> int:
    """Return the number of clients that a new process has after the import of the handler."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    found = subprocess.run(
        [sys.executable, "-c", COUNT.format(function)],
        env={**clean, "AWS_EC2_METADATA_DISABLED": "true", **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(found.stdout)


@pytest.mark.parametrize(("function", "clients"), [("ring_doorbell", 2), ("launch_instances", 4)])
def test_in_lambda_the_clients_exist_before_the_first_invocation(function: str, clients: int) -> None:
    assert clients_after_import(function, IN_LAMBDA) == clients


def test_elsewhere_a_handler_is_imported_without_a_client() -> None:
    assert clients_after_import("launch_instances", {}) == 0


IMPORTED = """
import sys
from functions.{} import handler
print(*sorted(sys.modules))
"""


PLANNER = ("joiner.planning.planner", "joiner.planning.search")
PREPARATION = (
    "joiner.launching.image_families",
    "joiner.launching.launch_grouping",
    "joiner.launching.node_class_resolution",
)
"""Modules that prepare launches."""


@pytest.mark.parametrize(
    ("function", "unneeded"),
    [
        ("ring_doorbell", ("joiner.pools", "joiner.cluster", "kubernetes")),
        ("find_pending_pods", ("yaml", "kubernetes.client.models", "boto3", "highspy", *PLANNER, *PREPARATION)),
        ("record_launches", (*PLANNER, *PREPARATION)),
        ("check_registration", (*PLANNER, *PREPARATION)),
        ("record_node_claims", ("yaml", "kubernetes.client.models", "boto3", "highspy")),
        ("launch_instances", ("joiner.planning", "kubernetes", "boto3", "highspy")),
    ],
)
def test_a_cold_start_imports_no_module_that_its_function_does_not_use(
    function: str, unneeded: tuple[str, ...]
) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    found = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(function)],
        env={**clean, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert set(unneeded) & set(found.stdout.split()) == set()
