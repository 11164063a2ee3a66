"""Recorded cases of Karpenter's scheduler: the command places the same pods at no higher price."""

import json
from collections import Counter
from pathlib import Path

import pytest

from joiner_cli.manifests import read_documents, read_manifest_set
from tests.plan_checker import check_plan
from tests.unit.cli.command_runs import joiner
from tests.unit.cli.manifest_reading import all_lists
from tests.unit.cli.recorded import as_files

CASES = sorted((Path(__file__).parents[2] / "data" / "oracle").glob("*.json"))[::7]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_command_places_the_pods_that_karpenter_places(path: Path, tmp_path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    manifests, catalogue = as_files(case, tmp_path)
    answer = joiner("plan", "-f", manifests, "--catalogue", catalogue, "--prices", "instance", "-o", "json")
    expected = case["expected"]

    left = Counter(one["pod"].rpartition("/")[2].rpartition("-")[0] for one in answer.json["pending"])
    assert left <= Counter({name: number for name, number in expected["unschedulableByGroup"].items() if number})
    assert answer.exit_code == (2 if left else 0)
    assert (
        check_plan(
            all_lists(read_manifest_set(read_documents([str(manifests)]))),
            json.loads(catalogue.read_text()),
            answer.json,
        )
        == []
    )
    if not left and not expected["unschedulable"]:
        assert (
            answer.json["pricePerHour"] <= (expected["cost"] if expected["exact"] else expected["costRange"][1]) + 1e-6
        )
