"""A pool's limits raise the lower bound where they restrict plans, and never above the cost of a possible plan."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.law_settings import examples
from tests.plan_checker.amounts import amount
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    Json,
    affinity,
    near,
    node,
    node_pool,
    planned,
    pod,
    pods,
    running,
)

SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def pools(limit: Json, weight: int = 1) -> list[Json]:
    """Return a cheap pool with a limit, and a pool without one."""
    return [
        node_pool("cheap", requirements=[SPOT], limits=limit, weight=weight),
        node_pool("costly", requirements=[ON_DEMAND], weight=1),
    ]


@pytest.mark.parametrize("weight", [1, 10])
def test_the_bound_knows_that_a_cheap_pool_is_soon_used_up(weight: int) -> None:
    lists: dict[str, list[Json]] = {"pods": [*pods(6, cpu="1500m", memory="1Gi")]}
    limited = planned({**lists, "nodepools": pools({"cpu": "2"}, weight)})
    endless = planned({**lists, "nodepools": pools({}, weight)})

    assert [one.pool_name for one in limited.nodes] == ["cheap", *["costly"] * 5]
    assert limited.lower_bound_per_hour > 2 * endless.price_per_hour
    assert limited.gap < 0.03


def test_what_runs_already_counts_against_the_limit() -> None:
    there = node("old", cpu=2, gib=4, labels={"karpenter.sh/nodepool": "cheap"})
    waiting = pods(2, cpu="1500m", memory="1Gi", **affinity(podAntiAffinity=[near(HOST, "web")]))
    plan = planned(
        {"pods": [running("busy", "old", cpu="1900m"), *waiting], "nodes": [there], "nodepools": pools({"nodes": "2"})}
    )

    assert sorted(one.pool_name for one in plan.nodes) == ["cheap", "costly"]
    assert plan.lower_bound_per_hour == pytest.approx(plan.price_per_hour)


sizes = st.tuples(st.sampled_from([400, 900, 1700, 3000]), st.sampled_from([1000, 3000, 7000, 14000]))


@examples(40)
@given(st.lists(sizes, min_size=1, max_size=4), st.sampled_from([0, 2, 4, 6, 8]), st.sampled_from([1, 10]))
def test_no_bound_beside_a_limit_is_above_the_cheapest_plan(
    asked: list[tuple[int, int]], cpus: int, weight: int
) -> None:
    waiting = [pod(f"p-{number}", cpu=f"{cpu}m", memory=f"{memory}Mi") for number, (cpu, memory) in enumerate(asked)]
    plan = planned({"pods": waiting, "nodepools": pools({"cpu": str(cpus)}, weight)})

    assert not plan.pending
    assert plan.lower_bound_per_hour <= cheapest_of_all(asked, cpus) + 1e-9
    assert plan.price_per_hour >= cheapest_of_all(asked, cpus) - 1e-9


def cheapest_of_all(asked: Sequence[tuple[int, int]], cpus: int) -> float:
    """Return the lowest price of all divisions of the pods among nodes, and of all ways to create these nodes within
    the limit.
    """
    best = float("inf")
    for parts in divided(list(asked)):
        for ways in product(*map(ways_to_make, parts)):
            if sum(counted for _, counted in ways) <= cpus:
                best = min(best, sum(price for price, _ in ways))
    return best


def divided(asked: list[Any]) -> Iterator[list[list[Any]]]:
    if not asked:
        yield []
        return
    for rest in divided(asked[1:]):
        yield [[asked[0]], *rest]
        for position, part in enumerate(rest):
            yield [*rest[:position], [asked[0], *part], *rest[position + 1 :]]


def ways_to_make(part: list[tuple[int, int]]) -> list[tuple[float, int]]:
    """Return, for each type that holds these pods, its price and what counts against the limit of the cheap pool."""
    cpu, memory = map(sum, zip(*part, strict=True))
    return [
        (offering["pricePerHour"], int(known["capacity"]["cpu"]) if offering["capacityType"] == "spot" else 0)
        for known in CATALOGUE.values()
        for offering in known["offerings"][:2]
        if amount(known["allocatable"]["cpu"]) * 1000 >= cpu
        and amount(known["allocatable"]["memory"]) >= memory * 2**20
    ]
