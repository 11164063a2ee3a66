"""Every function folder describes the function, and the function accepts the input that the folder shows."""

import json
from pathlib import Path

import pytest

from joiner.adapters.payload import BadPayload, Task
from tests.unit.functions.function_loading import FUNCTIONS, load

FOLDERS = sorted(path.parent for path in FUNCTIONS.glob("*/handler.py"))
OF_MACHINES = [
    "survey_cluster",
    "survey_instances",
    "collect_garbage",
    "rebuild_claims",
    "detect_drift",
    "find_pending_pods",
    "resolve_node_classes",
    "plan_capacity",
    "record_node_claims",
    "launch_instances",
    "record_launches",
    "check_registration",
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_holds_a_handler_a_readme_and_a_real_input(folder: Path) -> None:
    readme = (folder / "README.md").read_text()

    assert readme.startswith(f"# {folder.name}\n")
    assert "**Place.**" in readme
    assert isinstance(json.loads((folder / "event.json").read_text()), dict)


@pytest.mark.parametrize("name", OF_MACHINES)
def test_a_state_machines_input_is_understood(name: str) -> None:
    task = Task.parse(json.loads((FUNCTIONS / name / "event.json").read_text()))

    assert task.cluster.name == "joiner-demo"
    assert task.cluster.ca.startswith("-----BEGIN")
    assert task.execution.arn.startswith("arn:")
    assert callable(load(name).handler)


def test_a_payload_of_another_schema_is_refused_with_a_remedy() -> None:
    event = json.loads((FUNCTIONS / "plan_capacity" / "event.json").read_text())

    with pytest.raises(BadPayload, match="schema 2"):
        Task.parse({**event, "schema": 2})


def test_a_payload_that_lacks_a_field_is_an_error_that_names_it() -> None:
    with pytest.raises(BadPayload, match="execution"):
        Task.parse({"schema": 1})
