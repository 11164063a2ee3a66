"""Mutated manifests: each is refused with object and field, and the rest is planned; no traceback, no endless search.

``JOINER_MUTATIONS`` is the number of mutations (10,000 for a thorough test), ``JOINER_MUTATIONS_FROM`` the first seed.
"""

import json
import os
import time
from pathlib import Path

import pytest

from joiner_cli.manifest_plan import PlanRequest, plan_manifests
from joiner_cli.manifests import read_manifest_set
from joiner_cli.manifests.manifest_documents import read_text
from tests.plan_checker import check_plan
from tests.unit.cli.manifest_reading import all_lists
from tests.unit.cli.mutations import good, mutated
from tests.unit.cli.written_forms import list_written_forms

NUMBER = int(os.environ.get("JOINER_MUTATIONS", "150"))
FIRST = int(os.environ.get("JOINER_MUTATIONS_FROM", "0"))
PARTS = 10
DEADLINE = 0.05  # seconds: this is no test of how good plans are, and a plan is valid at any deadline
# Seconds of CPU, a hundred times what one file takes: not how fast it is read and planned, but that this ends
ENDLESS = 60.0


FOUND = (202612011578, 202612013449, 202612015002, 202612016734, 202612018269)
"""Mutations of a thorough test that were answered wrongly once: a shown value that was not the written one, a pod with
errors whose affinity lacks a key, and a DaemonSet that requests 0 of a resource."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_broken_object_is_refused_by_name_and_the_rest_is_planned(part: int, catalogue: Path, tmp_path: Path) -> None:
    manifests = good()
    for seed in range(FIRST + part, FIRST + NUMBER, PARTS):
        check_answers(seed, mutated(seed, manifests), catalogue, tmp_path / "mutated.yaml")


@pytest.mark.parametrize("seed", FOUND)
def test_mutations_that_were_answered_wrongly_once_are_answered_right(
    seed: int, catalogue: Path, tmp_path: Path
) -> None:
    check_answers(seed, mutated(seed, good()), catalogue, tmp_path / "mutated.yaml")


def check_answers(seed: int, text: str, catalogue: Path, file: Path) -> None:
    """Assert that the mistakes of these manifests name object, field and value, and that the plan of the rest is valid.
    The text is written to the file."""
    began = time.process_time()
    found = read_manifest_set(read_text(text, "file"))
    assert time.process_time() - began < ENDLESS, f"seed {seed}"
    written = list_written_forms(text) if found.errors else frozenset()
    for error in found.errors:
        assert error.object, f"seed {seed}: {error}"
        assert not error.value or error.value in written or error.field.endswith("Ref"), f"seed {seed}: {error}"
        assert error.field or error.object.startswith("file"), f"seed {seed}: {error}"
    file.write_text(text, encoding="utf-8")
    began = time.process_time()
    plan = plan_manifests(PlanRequest((str(file),), catalogue, deadline=DEADLINE))
    worked = time.process_time() - began
    wrong = check_plan(all_lists(found), json.loads(catalogue.read_text()), json.loads(json.dumps(plan.to_json())))
    assert not wrong, f"seed {seed}: {wrong[:3]}"
    assert worked < ENDLESS, f"seed {seed}: {worked:.2f} s of CPU, planned for {plan.plan_seconds:.2f} s"
