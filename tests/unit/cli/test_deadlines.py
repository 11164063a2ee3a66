"""A deadline that stops the search: every output is a whole plan, says so, and keeps its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner_cli.cost_command import CostFormat
from tests.unit.cli.command_runs import deployment, joiner, node_class, pod, pool, write
from tests.unit.cli.test_cost import managed, running

NOTE = "joiner: the search stopped at the deadline: a longer --deadline may find a cheaper plan"
PODS = 40 * 12
BATCH = tuple(
    deployment(f"app-{number}", 12, cpu=f"{70 + 190 * number}m", memory=f"{90 + number * number * 7}Mi")
    for number in range(40)
)
"""Deployments of forty sizes, for which the search of a plan takes seconds."""
SOON = ("--deadline", 0.01)
NODES = 60


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("batch"), pool(), node_class(), *BATCH)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pods of the batch, which run on nodes."""
    nodes = [each for number in range(NODES) for each in managed(f"n{number}", "c6i.4xlarge")]
    sizes = [f"{70 + 190 * (number // 12)}m" for number in range(PODS)]
    pods = [running(f"p{number}", f"n{number % NODES}", cpu) for number, cpu in enumerate(sizes)]
    return write(tmp_path_factory.mktemp("dump"), pool(), node_class(), *nodes, *pods)


def of_json(out: str) -> Any:
    return json.loads(out)


def of_yaml(out: str) -> Any:
    return yaml.safe_load(out)


@pytest.mark.parametrize(("output", "read"), [("json", of_json), ("yaml", of_yaml)])
def test_the_fields_of_a_plan_say_that_the_search_was_cut_short(output: str, read: Any, batch: Path) -> None:
    answer = joiner("plan", "-f", batch, *SOON, "-o", output)

    plan = read(answer.out)
    assert plan["cutShort"] is True and plan["optimal"] is False
    assert sum(len(node["pods"]) for node in plan["nodes"]) == PODS and plan["pending"] == []
    assert answer.exit_code == 0 and NOTE in answer.err.splitlines()


@pytest.mark.parametrize("output", ["table", "html"])
def test_a_shown_plan_has_a_note_that_the_search_was_cut_short(output: str, batch: Path) -> None:
    answer = joiner("plan", "-f", batch, *SOON, "-o", output)

    assert f"{PODS} pods" in answer.out and "pending" not in answer.out.partition("\n")[0]
    assert answer.exit_code == 0 and NOTE in answer.err.splitlines()


def test_an_explanation_has_a_note_that_the_search_was_cut_short(batch: Path) -> None:
    answer = joiner("explain", "pod", "shop/app-7-0", "-f", batch, *SOON)

    assert answer.exit_code == 0 and NOTE in answer.err.splitlines()


def test_every_format_of_the_cost_has_a_test_with_a_deadline() -> None:
    assert set(CostFormat) == {"table", "json", "yaml"}


@pytest.mark.parametrize(("output", "read"), [("json", of_json), ("yaml", of_yaml)])
def test_the_fields_of_a_cost_say_that_the_search_was_cut_short(output: str, read: Any, dump: Path) -> None:
    answer = joiner("cost", "-f", dump, *SOON, "-o", output)

    cost = read(answer.out)
    anew = cost["packedAnew"]
    assert (anew["cutShort"], anew["optimal"], anew["comparable"], anew["pending"]) == (True, False, True, [])
    assert cost["nodes"] == NODES and min(anew["nodes"], anew["pricePerHour"]) > 0
    assert answer.exit_code == 0 and NOTE in answer.err.splitlines()


def test_a_shown_cost_has_a_note_that_the_search_was_cut_short(dump: Path) -> None:
    answer = joiner("cost", "-f", dump, *SOON, "-o", "table")

    assert f"{NODES} nodes of Joiner for $" in answer.out and "Packed anew, the same pods would need " in answer.out
    assert "no plan costs less than $" in answer.out
    assert answer.exit_code == 0 and NOTE in answer.err.splitlines()


def test_a_pod_without_a_place_changes_the_exit_code_of_a_plan_that_is_cut_short(tmp_path: Path) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pool(), node_class(), *BATCH, pod("huge", cpu="900")), *SOON)

    assert answer.exit_code == 2 and NOTE in answer.err.splitlines()


def test_a_search_that_ends_before_the_deadline_has_no_note(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), node_class(), pod("web"))
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "--deadline", 20, "-o", "json")

    assert answer.json["cutShort"] is False and answer.exit_code == 0
    assert NOTE not in answer.err

    standing = write(tmp_path, pool(), node_class(), *managed("a", "m5.large"), running("web", "a", "1500m"))
    answer = joiner("cost", "-f", standing, "--catalogue", catalogue, "--deadline", 20, "-o", "json")

    assert answer.json["packedAnew"]["cutShort"] is False and answer.exit_code == 0
    assert NOTE not in answer.err
