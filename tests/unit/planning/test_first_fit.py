"""No plan of up to 3,000 pods is more expensive than first-fit, and the price of first-fit is reported as it is."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.plan_policies import PlanTolerances
from joiner.planning.planner import plan
from tests.law_settings import examples
from tests.plan_checker.amounts import amount
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    Json,
    affinity,
    clusters,
    near,
    node_pool,
    planned,
    pods,
    spread,
)

SLOW_IS_FINE = examples(40)
Kinds = list[tuple[int, int, int]]
"""Number of pods, their cpu in millicores and their memory in MiB."""
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}

kinds = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 18).map(lambda n: 100 * n), st.integers(1, 40).map(lambda n: 64 * n)),
    min_size=1,
    max_size=6,
    unique_by=lambda kind: kind[1:],
)


def manifests(asked: Kinds) -> list[Json]:
    return [
        one
        for number, (count, cpu, memory) in enumerate(asked)
        for one in pods(count, f"kind-{number}", cpu=f"{cpu}m", memory=f"{memory}Mi")
    ]


def first_fit(asked: Kinds) -> float:
    """Return the price of Karpenter's order: the largest pods first, each on the emptiest node that can become a type
    which holds it; at last each node becomes its cheapest type."""
    types = [
        (
            min(one["pricePerHour"] for one in known["offerings"]),
            amount(known["allocatable"]["cpu"]) * 1000,
            amount(known["allocatable"]["memory"]) / 2**20,
            amount(known["allocatable"]["pods"]),
        )
        for known in CATALOGUE.values()
    ]

    def cheapest(held: list[tuple[int, int]]) -> float:
        cpu, memory = sum(one[0] for one in held), sum(one[1] for one in held)
        fitting = [price for price, *size in types if cpu <= size[0] and memory <= size[1] and len(held) <= size[2]]
        return min(fitting, default=float("inf"))

    nodes: list[list[tuple[int, int]]] = []
    for _, *pod in sorted((-cpu, -memory, cpu, memory) for count, cpu, memory in asked for _ in range(count)):
        own = (pod[1], pod[2])
        fitting = [node for node in nodes if cheapest([*node, own]) < float("inf")]
        if fitting:
            min(fitting, key=len).append(own)
        else:
            nodes.append([own])
    return sum(cheapest(node) for node in nodes)


@SLOW_IS_FINE
@given(kinds)
def test_the_price_of_first_fit_is_reported_and_no_plan_is_more_expensive(asked: Kinds) -> None:
    made = planned({"pods": manifests(asked), "nodepools": [node_pool()]})

    assert not made.pending
    assert made.greedy_price_per_hour is not None
    assert made.greedy_price_per_hour == pytest.approx(first_fit(asked))
    assert made.price_per_hour <= made.greedy_price_per_hour + 1e-9
    assert made.to_json()["greedyPricePerHour"] == made.greedy_price_per_hour


@SLOW_IS_FINE
@given(clusters())
def test_no_plan_with_rules_is_more_expensive_than_a_first_fit_that_keeps_them(cluster: dict[str, list[Json]]) -> None:
    made = planned(cluster)

    assert made.greedy_price_per_hour is None or made.price_per_hour <= made.greedy_price_per_hour + 1e-9
    assert made.greedy_price_per_hour is None or not made.pending


@SLOW_IS_FINE
@given(kinds)
def test_fewer_nodes_and_more_zones_cost_no_more_than_the_plan_says_beside_first_fit(asked: Kinds) -> None:
    snapshot = Snapshot.from_lists({"pods": manifests(asked), "nodepools": [node_pool()]})

    made = plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, tolerances=PlanTolerances(0.02, 0.05))

    assert made.greedy_price_per_hour is not None
    assert made.price_per_hour - made.simplified.price_per_hour <= made.greedy_price_per_hour + 1e-9


@pytest.mark.parametrize("number", [300, 1000, 3000])
@pytest.mark.parametrize("ruled", [False, True], ids=["free", "with rules"])
def test_larger_plans_are_compared_with_first_fit_too(number: int, ruled: bool) -> None:
    rule = {"topologySpreadConstraints": [spread(ZONE)]} if ruled else {}
    waiting = [
        *pods(number // 2, "web", cpu="300m", memory="700Mi", **rule),
        *pods(number // 4, "api", cpu="1100m", memory="1Gi"),
        *pods(number // 4, "db", cpu="700m", memory="3Gi"),
    ]

    made = searched(waiting, Effort(steps=20))

    assert made.greedy_price_per_hour is not None
    assert made.price_per_hour <= made.greedy_price_per_hour + 1e-9


def test_a_first_plan_of_many_pods_has_no_time_for_first_fit() -> None:
    waiting = pods(100, cpu="300m", memory="700Mi")

    assert searched(waiting, Effort(steps=0)).greedy_price_per_hour is None
    assert searched(waiting[:40], Effort(steps=0)).greedy_price_per_hour is not None


def test_a_first_fit_beyond_a_limit_has_no_price() -> None:
    """First-fit takes one large node, which the limit excludes; the plan takes several small ones."""
    waiting = pods(6, cpu="1", memory="1Gi")
    free = node_pool(requirements=[ON_DEMAND])
    limited = node_pool(requirements=[ON_DEMAND], limits={"cpu": "7", "nodes": "6"})
    small = {name: CATALOGUE[name] for name in ("m.xlarge", "m.2xlarge")}
    few = pods(4, cpu="1", memory="1Gi")

    assert planned({"pods": waiting, "nodepools": [free]}, small).greedy_price_per_hour is not None
    within = planned({"pods": few, "nodepools": [limited]}, small)
    assert within.pending
    assert within.greedy_price_per_hour is None


def test_a_first_fit_that_ignores_affinity_has_no_price() -> None:
    """The guest must be beside the host; first-fit puts each on a small node of its own."""
    waiting = [
        *pods(1, "host", cpu="100m"),
        *pods(1, "guest", cpu="1800m", **affinity(podAffinity=[near(HOST, "host")])),
    ]

    made = planned({"pods": waiting, "nodepools": [node_pool(requirements=[ON_DEMAND])]})

    assert len(made.nodes) == 1
    assert made.greedy_price_per_hour is None
    assert "greedyPricePerHour" not in made.to_json()
    assert Plan.from_json(made.to_json()) == made


def searched(waiting: Sequence[Json], effort: Effort) -> Plan:
    snapshot = Snapshot.from_lists({"pods": waiting, "nodepools": [node_pool()]})
    return plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=effort)
