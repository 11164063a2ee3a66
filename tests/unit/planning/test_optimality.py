"""Small plans are proven optimal by an exact search, and the proof is sound: no division of the pods is cheaper."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from tests.law_settings import examples
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    Json,
    affinity,
    near,
    node,
    node_pool,
    planned,
    pods,
    spread,
)
from tests.unit.planning.test_laws import cheapest_of_all
from tests.unit.planning.test_laws_of_neighbours import PRICE_FACTORS, NeighbourApp, catalogue
from tests.unit.planning.test_laws_of_neighbours import cheapest_of_all as cheapest_with_rules

SLOW_IS_FINE = examples(40)
TYPES = ["t.small", "s.large", "c.xlarge", "m.2xlarge"]


def made_of(waiting: Sequence[Json], steps: int | None = None) -> Plan:
    snapshot = Snapshot.from_lists({"pods": waiting, "nodepools": [node_pool()]})
    return plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=Effort(steps=steps))


@SLOW_IS_FINE
@given(
    st.lists(
        st.tuples(st.sampled_from([100, 400, 900, 1700, 3000]), st.sampled_from([100, 1000, 3000, 7000, 14000])),
        min_size=1,
        max_size=6,
    )
)
def test_a_few_pods_without_rules_are_always_proven_optimal(asked: list[tuple[int, int]]) -> None:
    waiting = [
        one
        for number, (cpu, memory) in enumerate(asked)
        for one in pods(1, f"p-{number}", cpu=f"{cpu}m", memory=f"{memory}Mi")
    ]

    made = made_of(waiting)

    assert made.optimal
    assert made.price_per_hour == pytest.approx(cheapest_of_all(asked))
    assert made.lower_bound_per_hour == pytest.approx(made.price_per_hour)


RULES = {
    "level over zones": NeighbourApp("web", 5, 900, 1024, level=((ZONE, 1),)),
    "loosely level over zones": NeighbourApp("web", 5, 900, 1024, level=((ZONE, 2),)),
    "apart over zones": NeighbourApp("web", 3, 400, 64, apart=((ZONE, "web"),)),
    "apart over hosts": NeighbourApp("web", 5, 400, 64, apart=((HOST, "web"),)),
    "together in a zone": NeighbourApp("web", 5, 1800, 3072, beside=((ZONE, "web"),)),
    "level over zones and apart over hosts": NeighbourApp(
        "web", 5, 400, 64, level=((ZONE, 1),), apart=((HOST, "web"),)
    ),
}


@pytest.mark.parametrize("app", RULES.values(), ids=RULES)
def test_pods_of_one_kind_with_rules_are_proven_optimal(app: NeighbourApp) -> None:
    types = catalogue(TYPES)
    made = planned({"pods": app.manifests(), "nodepools": [node_pool()]}, types)

    assert made.price_per_hour == pytest.approx(cheapest_with_rules([app], types))
    assert made.optimal


def test_a_plan_of_ten_kinds_is_proven_optimal() -> None:
    waiting = [
        one for number in range(10) for one in pods(1, f"kind-{number}", cpu=f"{300 + 170 * number}m", memory="900Mi")
    ]

    assert made_of(waiting).optimal


def test_a_plan_of_the_cheaper_zone_is_optimal_for_level_pods_only_with_that_zone() -> None:
    """Four pods over three zones: the cheapest zone gets two of them, and the proof tries every zone for the second."""
    app = NeighbourApp("web", 4, 1500, 1024, level=((ZONE, 1),))
    types = catalogue(["s.large", "m.2xlarge"])

    made = planned({"pods": app.manifests(), "nodepools": [node_pool()]}, types)

    price = types["s.large"]["offerings"][0]["pricePerHour"]
    assert made.price_per_hour == pytest.approx(round(sum(price * more for more in (1.0, *PRICE_FACTORS.values())), 5))
    assert made.optimal


def test_what_is_not_searched_is_not_called_optimal() -> None:
    kinds = [(f"kind-{number}", f"{300 + 37 * number}m", f"{700 + 91 * number}Mi") for number in range(25)]
    many = [one for name, cpu, memory in kinds for one in pods(2, name, cpu=cpu, memory=memory)]
    made = made_of(many)

    assert made.lower_bound_per_hour < made.price_per_hour
    assert (made.optimal, made.to_json()["optimal"]) == (False, False)
    assert not made_of(pods(3, cpu="1100m", memory="900Mi"), steps=0).optimal


def test_free_capacity_of_nodes_is_left_to_the_relaxation() -> None:
    """Two of the pods fit on the node that exists, so the third one needs only a small node."""
    waiting = pods(3, cpu="1500m", memory="900Mi")
    made = planned({"pods": waiting, "nodepools": [node_pool()], "nodes": [node("old")]})

    assert [len(one.pods) for one in made.existing] == [2]
    assert made.lower_bound_per_hour <= made.price_per_hour


def test_pods_that_another_rule_keeps_apart_raise_no_bound_wrongly() -> None:
    """Pods of ``api`` are counted by the spread of ``web``, so the spread of ``web`` alone divides nothing."""
    both = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}
    level = {**spread(ZONE), "labelSelector": both}
    waiting = [
        *pods(4, "web", cpu="400m", topologySpreadConstraints=[level]),
        *pods(2, "api", cpu="900m", **affinity(podAntiAffinity=[near(ZONE, "api")])),
    ]

    made = made_of(waiting)

    assert made.lower_bound_per_hour <= made.price_per_hour
    assert not made.pending


def test_an_empty_plan_is_optimal() -> None:
    assert made_of([]).to_json()["optimal"] is True
