"""Properties of every plan, verified by the independent checker over random clusters."""

import random
from itertools import combinations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from joiner.planning import Plan
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.plan_checker.amounts import amount
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    ZONES,
    Json,
    clusters,
    instance_type,
    node_pool,
    planned,
    pod,
    pods,
    spread,
)

SLOW_IS_FINE = examples(40)
TWO_PLANS = examples(40, repeated=20)


@SLOW_IS_FINE
@given(clusters())
def test_a_plan_breaks_no_rule_costs_no_less_than_its_bound_and_survives_being_written_down(
    cluster: dict[str, list[Json]],
) -> None:
    plan = planned(cluster)
    written = plan.to_json()

    assert check_plan(cluster, CATALOGUE, written) == []
    assert plan.lower_bound_per_hour <= plan.price_per_hour
    assert Plan.from_json(written) == plan


@TWO_PLANS
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_does_not_matter(
    cluster: dict[str, list[Json]], chance: random.Random
) -> None:
    shuffled = {kind: chance.sample(items, len(items)) for kind, items in cluster.items()}

    assert planned(shuffled) == planned(cluster)


@TWO_PLANS
@given(clusters())
def test_the_same_pods_are_never_bounded_higher_when_a_type_is_added(cluster: dict[str, list[Json]]) -> None:
    richer = {**CATALOGUE, "x.large": instance_type("x.large", 2, 8, 0.06, zones=ZONES)}
    before, after = planned(cluster), planned(cluster, richer)

    assume({one.pod for one in before.pending} == {one.pod for one in after.pending})
    assert after.lower_bound_per_hour <= before.lower_bound_per_hour + 1e-9


@SLOW_IS_FINE
@given(clusters())
@example(
    {
        "pods": pods(3, cpu="100m", memory="64Mi", topologySpreadConstraints=[spread()]),
        "nodes": [],
        "nodepools": [node_pool(limits={"cpu": "4"})],
        "daemonsets": [],
    }
)
def test_after_a_plan_is_executed_nothing_is_left_to_plan(cluster: dict[str, list[Json]]) -> None:
    """When its pods are bound and its nodes exist, the planner only repeats why the other pods stay pending. A zone
    that a limit leaves without a node counts for a spread until the nodes are there, so its pods may join them then."""
    plan = planned(cluster)
    where = {name: node.name for node in plan.nodes for name in node.pods} | {
        name: one.node for one in plan.existing for name in one.pods
    }
    bound = [
        {**pod, "spec": {**pod["spec"], "nodeName": where[key]}, "status": {"phase": "Running"}}
        if key in where
        else pod
        for pod in cluster["pods"]
        for key in [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]
    ]
    new = [
        {
            "metadata": {"name": one.name, "labels": {**one.labels, "kubernetes.io/hostname": one.name}},
            "spec": {
                "taints": [taint.to_kube() for taint in one.taints],
                "providerID": f"aws:///{one.zone}/i-{one.name}",
            },
            "status": {"capacity": one.capacity.to_kube(), "allocatable": one.allocatable.to_kube()},
        }
        for one in plan.nodes
    ]
    later = planned({**cluster, "pods": bound, "nodes": [*cluster["nodes"], *new]})

    joined = {name for one in later.existing for name in one.pods}
    spread_out = {f"default/{one['metadata']['name']}" for one in bound if "topologySpreadConstraints" in one["spec"]}
    assert later.nodes == ()
    assert joined <= (spread_out if any("limits" in one["spec"] for one in cluster["nodepools"]) else set())
    assert {one.pod for one in later.pending} | joined == {one.pod for one in plan.pending}


sizes = st.tuples(st.sampled_from([100, 400, 900, 1700, 3000]), st.sampled_from([100, 1000, 3000, 7000, 14000]))


@SLOW_IS_FINE
@given(st.lists(sizes, min_size=1, max_size=5))
def test_a_tiny_plan_is_as_cheap_as_any_and_the_bound_is_below_it(asked: list[tuple[int, int]]) -> None:
    waiting = [pod(f"p-{number}", cpu=f"{cpu}m", memory=f"{memory}Mi") for number, (cpu, memory) in enumerate(asked)]
    plan = planned({"pods": waiting, "nodepools": [node_pool()]})
    best = cheapest_of_all(asked)

    assert plan.lower_bound_per_hour <= best + 1e-9
    assert plan.price_per_hour == pytest.approx(best)
    assert plan.optimal


def cheapest_of_all(asked: list[tuple[int, int]]) -> float:
    """Return the lowest price of all divisions of the pods among nodes."""
    if not asked:
        return 0.0
    first, rest = asked[0], asked[1:]
    best = float("inf")
    for size in range(len(rest) + 1):
        for others in combinations(range(len(rest)), size):
            cpu, memory = (sum(part) for part in zip(first, *(rest[index] for index in others), strict=True))
            fitting = [
                offering["pricePerHour"]
                for known in CATALOGUE.values()
                for offering in known["offerings"]
                if amount(known["allocatable"]["cpu"]) * 1000 >= cpu
                and amount(known["allocatable"]["memory"]) >= memory * 2**20
            ]
            if fitting:
                left = [rest[index] for index in range(len(rest)) if index not in others]
                best = min(best, min(fitting) + cheapest_of_all(left))
    return best
