"""Large packings: the solution for a part of the pods is repeated, and no pod is lost; pods that can use few nodes are
packed first.
"""

from dataclasses import replace

import numpy as np
import pytest

from joiner.planning.effort import Effort, Meter
from joiner.planning.packing.sampling import FIRST_SERVED, scarcity_factors
from joiner.planning.packing.search_context import SearchContext, solve_relaxation
from joiner.planning.packing.solve import solve_packing
from joiner.planning.tuning import FEW_ITEMS, PART_NODES
from tests.unit.planning.test_kernel import problem


@pytest.mark.parametrize("steps", [0, 40])
def test_a_large_plan_repeats_the_packing_of_a_part_and_loses_no_pod(
    steps: int,
) -> None:
    items = FEW_ITEMS + 10
    known = problem(2, items=items, rules=0)
    demand = known.demand * 100 + np.arange(items) % 7
    chance = SearchContext.of(replace(known, demand=demand), 0, Meter(Effort(steps=steps)))
    relaxation = solve_relaxation(known, demand, chance)
    assert relaxation.nodes.sum() > 2 * PART_NODES

    made = solve_packing(known, demand, relaxation, chance)

    held = np.zeros(known.items, np.int64)
    for one in made.patterns:
        held[one.items] += one.times * one.counts
        assert (one.counts @ known.need[one.items] <= known.free[one.offer]).all()
        assert known.open[one.offer, one.items].all()
    assert held.tolist() == demand.tolist()
    assert made.price == pytest.approx(sum(one.times * known.price[one.offer] for one in made.patterns))
    assert relaxation.value <= made.price <= relaxation.value * 1.1


def test_pods_are_urgent_where_nodes_that_could_hold_them_are_closed_to_them() -> None:
    known = problem(3, items=3, offers=2, rules=0)
    known = replace(
        known,
        need=np.array([[10.0, 10, 1], [10, 10, 1], [90, 10, 1]]),
        free=np.array([[50.0, 90, 9], [100, 90, 9]]),
        # the second is not allowed there, the third too large
        open=np.array([[True, False, False], [True, True, True]]),
    )

    assert scarcity_factors(known, np.array([0, 1]), np.array([3.0, 1.0])).tolist() == [
        1.0,
        1 + FIRST_SERVED * 0.75,
        1.0,
    ]
