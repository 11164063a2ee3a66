"""Packings in independent parts: each part is packed by itself, and their bounds add up."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from joiner.planning.effort import Effort, Meter
from joiner.planning.packing.independent_parts import find_independent_parts, group_items
from joiner.planning.packing.search_context import SearchContext, solve_relaxation
from joiner.planning.packing.solve import solve_packing
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.tuning import MOST_JOINT_PARTS
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import node_pool, pod
from tests.unit.planning.open_labels import rule
from tests.unit.planning.test_kernel import problem

PARTS = MOST_JOINT_PARTS + 4


def in_parts(seed: int) -> PackingProblem:
    """Return a problem in which item and offer numbers are mixed, and each offer is open to the items of one part."""
    known = problem(seed, items=3 * PARTS, offers=5 * PARTS, rules=3)
    item, offer = np.arange(known.items) % PARTS, np.arange(len(known.price)) % PARTS
    fits = (known.need[None] <= known.free[:, None]).all(axis=2)
    return replace(
        known,
        open=(offer[:, None] == item[None, :]) & fits,
        caps=np.maximum(known.caps, 1),  # with 0, an item that counts itself has no place at all
        firm=np.ones(len(known.caps), bool),
    )


@pytest.mark.parametrize("seed", range(6))
def test_items_that_share_no_offer_are_in_different_parts(seed: int) -> None:
    known = in_parts(seed)
    demand = np.where(np.arange(known.items) == 4, 0, known.demand)

    parts = group_items(known, demand)

    assert sorted(np.concatenate(parts).tolist()) == np.flatnonzero(demand).tolist()
    for part in parts:
        others = np.setdiff1d(np.arange(known.items), part)
        assert not (known.open[:, part].any(axis=1) & known.open[:, others][:, demand[others] > 0].any(axis=1)).any()
    assert len(parts) >= PARTS


def test_an_offer_for_all_items_makes_them_one_part() -> None:
    known = in_parts(1)
    shared = np.vstack([known.open[:-1], np.ones((1, known.items), bool)])

    assert len(group_items(replace(known, open=shared), known.demand)) == 1
    assert find_independent_parts(replace(known, open=shared), known.demand) == []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps", [0, 200])
def test_parts_lose_no_pod_and_keep_the_rules_and_the_bound(seed: int, steps: int) -> None:
    known = in_parts(seed)
    demand = np.where(known.open.any(axis=0), known.demand, 0)
    context = SearchContext.of(known, 0, Meter(Effort(steps=steps)))
    relaxation = solve_relaxation(known, demand, context)

    made = solve_packing(known, demand, relaxation, context)

    held = np.zeros(known.items, np.int64)
    for one in made.patterns:
        contents = np.zeros((1, known.items), np.int64)
        contents[0, one.items] = one.counts
        held += one.times * contents[0]
        assert (contents @ known.need <= known.free[one.offer]).all()
        assert known.open[one.offer, one.items].all()
        assert not known.clashing(contents).any()
    assert held.tolist() == demand.tolist()
    assert made.price == pytest.approx(sum(one.times * known.price[one.offer] for one in made.patterns))
    assert relaxation.value * (1 - 1e-6) <= context.proven_for(demand) <= made.price + 1e-9


def test_a_plan_of_many_tenants_costs_what_the_plans_of_each_cost_and_is_proven() -> None:
    pool = node_pool(requirements=[rule("tenant", "Exists")])

    def of(tenant: int) -> list[dict[str, Any]]:
        sizes = enumerate(("400m", "900m", f"{1000 + 90 * tenant}m"))
        return [pod(f"web-{tenant}-{at}", cpu=cpu, nodeSelector={"tenant": f"t{tenant}"}) for at, cpu in sizes]

    alone = [checked(cluster(of(tenant), pool)) for tenant in range(PARTS)]
    together = checked(cluster([one for tenant in range(PARTS) for one in of(tenant)], pool))

    assert together.pending == ()
    assert together.price_per_hour == pytest.approx(sum(plan.price_per_hour for plan in alone))
    assert together.lower_bound_per_hour == pytest.approx(together.price_per_hour)
