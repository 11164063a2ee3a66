"""Pools of several weights: a node of a pool exists only if one of its pods could not have a node of a pool with higher
weight. Pods may exclude each other from their nodes. Against all plans of tiny clusters: the bound is below each of
them, and no pod is given up that one of them places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.plan_checker.amounts import amount
from tests.unit.planning.brute_force import TYPES
from tests.unit.planning.drawn_clusters import HOST, Json, affinity, instance_type, near, node_pool, planned, pod
from tests.unit.planning.test_limits_in_bounds import divided

CATALOGUE = {name: instance_type(name, *TYPES[name]) for name in TYPES}
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True)
class Pool:
    """A pool of some instance types. ``cpus`` is its limit in vCPUs; 0 for none."""

    name: str
    weight: int
    types: tuple[str, ...]
    cpus: int = 0

    def manifest(self) -> Json:
        named = {"key": INSTANCE_TYPE, "operator": "In", "values": list(self.types)}
        limits = {"cpu": str(self.cpus)} if self.cpus else {}
        return node_pool(self.name, requirements=[named], weight=self.weight, limits=limits)


@dataclass(frozen=True)
class SizedPod:
    """A pod: millicores, MiB, priority. Two pods that are ``alone`` share no node."""

    cpu: int
    memory: int
    priority: int = 0
    alone: bool = False


def manifests(waiting: Sequence[SizedPod]) -> list[Json]:
    return [
        pod(f"p-{number}", cpu=f"{one.cpu}m", memory=f"{one.memory}Mi", priority=one.priority, **rules_of(one))
        for number, one in enumerate(waiting)
    ]


def rules_of(one: SizedPod) -> Json:
    if not one.alone:
        return {}
    return {"app": "alone", **affinity(podAntiAffinity=[near(HOST, "alone")])}


def holds(name: str, inside: Sequence[SizedPod]) -> bool:
    free = CATALOGUE[name]["allocatable"]
    cpu, memory = sum(one.cpu for one in inside), sum(one.memory for one in inside)
    fits = cpu <= amount(free["cpu"]) * 1000 and memory * 2**20 <= amount(free["memory"])
    return fits and sum(one.alone for one in inside) <= 1


def price_of(name: str) -> float:
    return float(min(each["pricePerHour"] for each in CATALOGUE[name]["offerings"]))


def may_open(pool: Pool, one: SizedPod, pools: Sequence[Pool]) -> bool:
    """Return whether no pool of higher weight, which has no limit here, can hold this pod."""
    return not any(other.weight > pool.weight and any(holds(name, [one]) for name in other.types) for other in pools)


def cheapest_node(inside: Sequence[SizedPod], pools: Sequence[Pool]) -> float:
    prices = [
        price_of(name)
        for pool in pools
        if any(may_open(pool, one, pools) for one in inside)
        for name in pool.types
        if holds(name, inside)
    ]
    return min(prices, default=float("inf"))


def cheapest_of_all(waiting: Sequence[SizedPod], pools: Sequence[Pool]) -> float:
    return min(sum(cheapest_node(part, pools) for part in parts) for parts in divided(list(waiting)))


some_types = st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True).map(tuple)
weights = st.permutations([1, 10, 50])
sizes = st.builds(
    SizedPod, st.sampled_from([100, 400, 900, 1700, 3000, 7000]), st.sampled_from([64, 1024, 3000, 14000])
)


@st.composite
def several_pools(draw: st.DrawFn, limits: st.SearchStrategy[int]) -> tuple[Pool, ...]:
    ranked = draw(weights)[: draw(st.integers(2, 3))]
    return tuple(Pool(f"pool-{weight}", weight, draw(some_types), draw(limits)) for weight in ranked)


def check_against_all_plans(waiting: Sequence[SizedPod], pools: Sequence[Pool]) -> None:
    able = [one for one in waiting if any(holds(name, [one]) for pool in pools for name in pool.types)]
    lists = {"pods": manifests(waiting), "nodepools": [pool.manifest() for pool in pools]}
    plan = planned(lists, CATALOGUE)
    cheapest = cheapest_of_all(able, pools) if able else 0.0

    assert check_plan(lists, CATALOGUE, plan.to_json()) == []
    assert len(plan.pending) == len(waiting) - len(able)
    assert plan.price_per_hour >= cheapest - 1e-9
    assert plan.lower_bound_per_hour <= cheapest + 1e-9
    assert not plan.optimal or plan.price_per_hour == pytest.approx(cheapest)


@examples(60)
@given(st.lists(sizes, min_size=1, max_size=5), several_pools(st.just(0)))
def test_no_bound_of_pools_with_weights_is_above_the_cheapest_plan(
    waiting: list[SizedPod], pools: tuple[Pool, ...]
) -> None:
    check_against_all_plans(waiting, pools)


pods_with_rules = st.builds(replace, sizes, alone=st.booleans())


@examples(60)
@given(st.lists(pods_with_rules, min_size=2, max_size=5), several_pools(st.just(0)))
def test_pods_that_share_no_node_are_all_placed_and_bounded_below_the_cheapest_plan(
    waiting: list[SizedPod], pools: tuple[Pool, ...]
) -> None:
    check_against_all_plans(waiting, pools)


Placed = tuple[int, ...]


def placed_by_priority(waiting: Sequence[SizedPod]) -> Placed:
    return tuple(sum(one.priority == level for one in waiting) for level in (10, 0))


def better_subsets(waiting: Sequence[SizedPod], placed: Placed) -> Iterator[list[SizedPod]]:
    for chosen in product((True, False), repeat=len(waiting)):
        subset = [one for one, taken in zip(waiting, chosen, strict=True) if taken]
        if placed_by_priority(subset) > placed:
            yield subset


def fits_within_limits(subset: Sequence[SizedPod], pools: Sequence[Pool]) -> bool:
    """Return whether some division of these pods among nodes is within the limits of the pools."""
    for parts in divided(list(subset)):
        ways = [
            [
                (pool.name, CATALOGUE[name]["capacity"]["cpu"])
                for pool in pools
                for name in pool.types
                if holds(name, part)
            ]
            for part in parts
        ]
        for way in product(*ways):
            used = {pool.name: sum(int(amount(str(cpus))) for name, cpus in way if name == pool.name) for pool in pools}
            if all(not pool.cpus or used[pool.name] <= pool.cpus for pool in pools):
                return True
    return False


ranked_sizes = st.builds(
    SizedPod,
    st.sampled_from([400, 900, 1700, 3000, 9000]),
    st.sampled_from([64, 3000, 14000]),
    st.sampled_from([0, 0, 10]),
)


@examples(40)
@given(st.lists(ranked_sizes, min_size=1, max_size=5), several_pools(st.sampled_from([0, 2, 4, 8])))
def test_limits_of_pools_with_weights_give_up_no_pod_that_some_plan_places(
    waiting: list[SizedPod], pools: tuple[Pool, ...]
) -> None:
    lists = {"pods": manifests(waiting), "nodepools": [pool.manifest() for pool in pools]}
    plan = planned(lists, CATALOGUE)
    pending = {one.pod.rpartition("/")[2] for one in plan.pending}
    placed = placed_by_priority([one for number, one in enumerate(waiting) if f"p-{number}" not in pending])

    assert check_plan(lists, CATALOGUE, plan.to_json()) == []
    better = [subset for subset in better_subsets(waiting, placed) if fits_within_limits(subset, pools)]
    assert better == [], placed
