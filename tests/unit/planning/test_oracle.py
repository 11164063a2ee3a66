"""Karpenter's own scheduler as an oracle: a hundred recorded cases (``oracle.py`` describes their source)."""

from pathlib import Path

import pytest

from tests.plan_checker import check_plan
from tests.unit.planning.oracle import CASES, OracleCase, left_out

PATHS = sorted(CASES.glob("*.json"))


def test_all_cases_are_there() -> None:
    assert len(PATHS) == 100


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_pod_that_karpenter_places_is_placed_by_the_rules_and_for_no_more(path: Path) -> None:
    case = OracleCase.read(path)
    plan = case.plan()

    assert left_out(plan) - case.left_out_by_karpenter() == {}, "pods that Karpenter places are left out"
    assert check_plan(case.lists, case.catalogue, plan.to_json()) == []
    more_placed = left_out(plan) != case.left_out_by_karpenter()
    assert plan.price_per_hour <= case.highest_price + 1e-9 or more_placed, "the same pods for more than Karpenter pays"
    assert plan.lower_bound_per_hour <= plan.price_per_hour
