"""Bundles of pods against the linear program that treats each kind by itself: never above the optimum, and almost never
below it.
"""

from dataclasses import replace

import numpy as np
import pytest

from joiner.planning.arrays import Floats
from joiner.planning.relaxation.aggregation import solve_aggregated
from joiner.planning.relaxation.lp_values import NO_OFFERS, Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.relaxation.resource_lp import ResourceLp
from tests.unit.planning.test_kernel import problem


def flowing(known: PackingProblem, found: Relaxation) -> Floats:
    """Return how many pods of each item the relaxation assigns."""
    flows: Floats = np.bincount(found.item, weights=found.flow, minlength=known.items).astype(float)
    return flows


@pytest.mark.parametrize("seed", range(12))
def test_bundles_come_close_to_the_optimum_from_below(seed: int) -> None:
    known = problem(seed, items=60, offers=20, rules=0)
    exact = ResourceLp(known).solve(known.demand)

    found = solve_aggregated(known, known.demand, np.ones(20, bool), NO_OFFERS, rough=False)

    if found is not None:  # otherwise the linear program decides
        assert exact.value * (1 - 4e-4) <= found.value <= exact.value * (1 + 1e-6)
        assert flowing(known, found) == pytest.approx(known.demand)


@pytest.mark.parametrize("seed", range(12))
def test_worths_of_a_rough_solution_pay_for_no_more_than_there_is(seed: int) -> None:
    known = problem(seed, items=60, offers=20, rules=5)
    known = replace(known, counts=known.counts | known.asks, caps=known.caps + 1)
    exact = ResourceLp(known).solve(known.demand)

    found = solve_aggregated(known, known.demand, np.ones(20, bool), NO_OFFERS, rough=True)

    if found is not None:
        assert found.value <= exact.value * (1 + 1e-6)
        assert flowing(known, found) == pytest.approx(known.demand)
        assert known.open[found.offers[found.at], found.item].all()


def test_kinds_that_share_no_offer_are_never_in_one_bundle() -> None:
    known = problem(3, items=40, offers=10, rules=0)
    apart = np.arange(40) % 2 == np.arange(10)[:, None] % 2
    fits = (known.need[None] <= known.free[:, None]).all(axis=2)
    known = replace(known, open=apart & fits)
    demand = np.where(known.open.any(axis=0), known.demand, 0)

    found = solve_aggregated(known, demand, np.ones(10, bool), NO_OFFERS, rough=True)

    assert found is not None
    assert flowing(known, found) == pytest.approx(demand)
