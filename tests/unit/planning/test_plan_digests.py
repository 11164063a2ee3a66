"""A change of the planner's code changes no plan, unless it is meant to."""

import json
import platform

import pytest

from joiner.planning.packing.kernel.compiled_kernel import best_library
from joiner.planning.planner import Planner
from tests.unit.planning.oracle import CASES, OracleCase
from tests.unit.planning.plan_digests import DIGESTS, digest, digests


@pytest.mark.skipif(
    platform.machine() != "x86_64" or best_library() is None,
    reason="HiGHS rounds differently on other processors, and the search finds less without the compiled kernel",
)
def test_plans_of_recorded_cases_stay_the_same_to_the_byte() -> None:
    assert dict(digests()) == json.loads(DIGESTS.read_text(encoding="utf-8"))


def test_what_a_planner_has_planned_before_changes_no_plan() -> None:
    cases = [OracleCase.read(path) for path in sorted(CASES.glob("p00*.json"))]
    alone = [digest(case.plan()) for case in cases]
    planner = Planner()

    assert [digest(case.plan(planner)) for case in cases] == alone
    assert [digest(case.plan(planner)) for case in cases] == alone
