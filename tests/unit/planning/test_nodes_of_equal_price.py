"""Of plans with the same price, the search finds the one with fewer nodes, and it ends no earlier than it may: where
prices are in proportion to sizes, many plans have the same price.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort, Meter
from joiner.planning.planner import Planner, plan
from joiner.planning.search import ProvenScore, improve_proposed, propose_and_realize, search
from joiner.planning.state.checkpoint import score_plan
from joiner.planning.state.plan_state import PlanState
from tests.law_settings import examples
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    Json,
    affinity,
    instance_type,
    near,
    node_pool,
    pods,
    spread,
)

SIZES: Final = (1, 2, 4, 8)
LINEAR: Final = {
    f"l.{size}": instance_type(f"l.{size}", 2 * size, 8 * size, 0.1 * size, pods=40, zones=["us-test-1a"])
    for size in SIZES
}
ON_DEMAND: Final = node_pool(
    requirements=[{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
)
CPU: Final = (300, 700, 900, 1400, 1800, 3000)
APPS: Final = ("a", "b", "c", "d", "e")

App = tuple[int, int, str]
"""How many pods an app has, the millicores of each, and the app that they are apart from, or none."""


def apps(most_apps: int, most_pods: int) -> st.SearchStrategy[list[App]]:
    one = st.tuples(st.integers(1, most_pods), st.sampled_from(CPU), st.sampled_from(["", *APPS[:most_apps]]))
    return st.lists(one, min_size=1, max_size=most_apps)


def waiting(drawn: Sequence[App]) -> list[Json]:
    made: list[Json] = []
    for name, (number, cpu, other) in zip(APPS, drawn, strict=False):
        apart = affinity(podAntiAffinity=[near(HOST, other)]) if other else {}
        made += pods(number, name, cpu=f"{cpu}m", memory="1Gi", **apart)
    return made


def state_of(drawn: Sequence[App]) -> PlanState:
    snapshot = Snapshot.from_lists(cluster(waiting(drawn), ON_DEMAND))
    return Planner().state(snapshot, Catalogue.from_json(LINEAR), classes=CLASSES)


@examples(60, repeated=25)
@given(apps(5, 6))
@example([(2, 3000, "d"), (5, 900, "c"), (2, 700, "a"), (5, 700, "b"), (5, 3000, "")])
@example([(7, 900, ""), (7, 900, ""), (4, 3000, "e"), (5, 700, "a")])
def test_a_search_that_ends_early_finds_no_worse_plan_than_one_that_does_not(drawn: list[App]) -> None:
    ended, complete = state_of(drawn), state_of(drawn)
    meter, pods = Meter(Effort()), complete.pods_left

    search(ended, Meter(Effort()), 0)
    improve_proposed(complete, propose_and_realize(complete, meter, 0), pods, meter, 0, enough=ProvenScore())

    assert score_plan(ended).score <= score_plan(complete).score


def partitions(several: Sequence[Any]) -> Iterator[list[list[Any]]]:
    if not several:
        yield []
        return
    for rest in partitions(several[1:]):
        yield [[several[0]], *rest]
        for position, part in enumerate(rest):
            yield [*rest[:position], [several[0], *part], *rest[position + 1 :]]


def cheapest(drawn: Sequence[App]) -> tuple[float, int]:
    """Return the lowest price of these pods, and the lowest number of nodes for it: every partition is tried."""
    each = [(name, cpu, other) for name, (number, cpu, other) in zip(APPS, drawn, strict=False) for _ in range(number)]
    best = (float("inf"), 0)
    for parts in partitions(each):
        price = sum(price_of(part) for part in parts)
        best = min(best, (round(price, 6), len(parts)))
    return best


def price_of(part: Sequence[tuple[str, int, str]]) -> float:
    """Return the price of the cheapest node for these pods; infinite if none holds them, or if a rule parts them."""
    for at, (_, _, other) in enumerate(part):
        if any(name == other for place, (name, _, _) in enumerate(part) if place != at):
            return float("inf")
    holding = [0.1 * size for size in SIZES if sum(cpu for _, cpu, _ in part) <= 2000 * size - 80]
    return min(holding, default=float("inf"))


@examples(60, repeated=30)
@given(apps(3, 2))
@example([(2, 900, ""), (2, 1400, "")])
def test_a_plan_of_few_pods_has_the_fewest_nodes_of_all_plans_of_its_price(drawn: list[App]) -> None:
    made = checked(cluster(waiting(drawn), ON_DEMAND), catalogue=LINEAR)

    assert (round(made.price_per_hour, 6), len(made.nodes)) == cheapest(drawn)
    assert made.optimal


def test_a_first_proof_that_was_not_complete_does_not_replace_the_full_one() -> None:
    """The bound of whole nodes without the spreads takes less than a quarter of the effort, the one with them more."""
    kinds: Mapping[str, str] = {"a": "300m", "b": "1300m", "c": "1700m", "d": "2300m"}
    several = [
        pod
        for name, cpu in kinds.items()
        for pod in pods(7, name, cpu=cpu, topologySpreadConstraints=[spread(app=name)])
    ]

    made: Plan = plan(Snapshot.from_lists(cluster(several)), Catalogue.from_json(CATALOGUE), classes=CLASSES)

    assert made.lower_bound_per_hour == pytest.approx(0.63)
