"""The last step of planning: fewer and larger nodes, fewer instance types, and more zones, within the tolerances."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, PlanTolerances, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    ZONES,
    affinity,
    clusters,
    instance_type,
    near,
    node_pool,
    pods,
    spread,
)

FREE = PlanTolerances(fewer_nodes=0.0, zones=0.0)
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SIZES = {
    "r.xlarge": instance_type("r.xlarge", 4, 32, 0.25),
    "r.2xlarge": instance_type("r.2xlarge", 8, 64, 0.5, pods=30),
    "r.4xlarge": instance_type("r.4xlarge", 16, 128, 1.0, pods=40),
    "r.8xlarge": instance_type("r.8xlarge", 32, 256, 2.0, pods=60),
}


def shop(waiting: Sequence[Any], **annotations: str) -> dict[str, Sequence[Any]]:
    pool = dict(node_pool(requirements=[ON_DEMAND]))
    pool["metadata"] = {"name": "default", "uid": "u", "annotations": annotations}
    return {"pods": waiting, "nodepools": [pool]}


def planned(
    lists: Mapping[str, Sequence[Any]], tolerances: PlanTolerances | None, types: Mapping[str, Any] = SIZES
) -> Plan:
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(types), classes=CLASSES, tolerances=tolerances)
    assert check_plan(lists, types, made.to_json()) == []
    assert Plan.from_json(made.to_json()).simplified == made.simplified
    return made


def kinds(made: Plan) -> Counter[str]:
    return Counter(node.instance_type for node in made.nodes)


def zones(made: Plan) -> Counter[str]:
    return Counter(node.zone for node in made.nodes)


def test_eight_pods_share_one_large_node_where_it_costs_the_same_as_eight() -> None:
    made = planned(shop(pods(8, cpu="3500m", memory="28Gi")), FREE)

    assert kinds(made) == {"r.8xlarge": 1}
    assert (made.price_per_hour, made.optimal) == (2.0, True)


def test_merged_nodes_cost_at_most_the_tolerance_more() -> None:
    types = {**SIZES, "r.8xlarge": instance_type("r.8xlarge", 32, 256, 2.01, pods=60)}
    waiting = shop(pods(8, cpu="3500m", memory="28Gi"))

    strict, tolerant = planned(waiting, FREE, types), planned(waiting, PlanTolerances(fewer_nodes=0.005), types)

    assert "r.8xlarge" not in kinds(strict)
    assert strict.price_per_hour == 2.0
    assert kinds(tolerant) == {"r.8xlarge": 1}
    assert tolerant.simplified.price_per_hour == pytest.approx(0.01)
    assert tolerant.simplified.nodes > 0


@pytest.mark.parametrize(("radius", "most_cpu", "most_pods"), [("8", 8, 8), ("25%", 32, 2), ("50%", 32, 4)])
def test_the_blast_radius_of_the_pool_limits_merged_nodes(radius: str, most_cpu: int, most_pods: int) -> None:
    made = planned(shop(pods(8, cpu="3500m", memory="28Gi"), **{"joiner.dev/blast-radius": radius}), FREE)

    assert max(int(node.capacity["cpu"]) for node in made.nodes) <= most_cpu * 1000
    assert max(len(node.pods) for node in made.nodes) == min(most_pods, most_cpu // 4)


LARGE_IS_CHEAP = {**SIZES, "r.8xlarge": instance_type("r.8xlarge", 32, 256, 1.2, pods=60)}


@pytest.mark.parametrize(
    ("radius", "nodes"),
    [("100%", {"r.8xlarge": 1}), ("8", {"r.2xlarge": 4}), ("25%", {"r.2xlarge": 4}), ("50%", {"r.4xlarge": 2})],
)
def test_the_blast_radius_of_the_pool_limits_nodes_that_are_the_cheapest(radius: str, nodes: dict[str, int]) -> None:
    waiting = shop(pods(8, cpu="3500m", memory="28Gi"), **{"joiner.dev/blast-radius": radius})

    made = planned(waiting, FREE, LARGE_IS_CHEAP)

    assert kinds(made) == nodes
    assert made.lower_bound_per_hour <= made.price_per_hour


def test_a_pod_that_no_type_within_the_blast_radius_holds_gets_a_larger_one_and_others_do_not_join_it() -> None:
    small = pods(2, cpu="3500m", memory="28Gi")
    large = pods(1, "large", cpu="9", memory="28Gi")
    made = planned(shop([*small, *large], **{"joiner.dev/blast-radius": "4"}), FREE)

    assert kinds(made) == {"r.xlarge": 2, "r.4xlarge": 1}
    assert made.pending == ()


def test_running_pods_count_for_the_blast_radius() -> None:
    """Two of ten pods may be on a node: six run, and four come."""
    running = [
        {**pod, "spec": {**pod["spec"], "nodeName": "old"}, "status": {"phase": "Running"}}
        for pod in pods(6, "old", cpu="3500m", memory="28Gi")
    ]
    waiting = [*pods(4, cpu="3500m", memory="28Gi"), *running]
    made = planned(shop(waiting, **{"joiner.dev/blast-radius": "20%"}), FREE, LARGE_IS_CHEAP)

    assert kinds(made) == {"r.2xlarge": 2}


def test_pods_that_must_be_apart_stay_on_their_own_nodes() -> None:
    apart = pods(4, cpu="3500m", memory="28Gi", **affinity(podAntiAffinity=[near(HOST, "web")]))

    assert kinds(planned(shop(apart), FREE)) == {"r.xlarge": 4}


def test_nodes_of_equal_price_are_spread_over_zones() -> None:
    made = planned(shop(pods(6, cpu="3500m", memory="28Gi"), **{"joiner.dev/blast-radius": "4"}), FREE)

    assert zones(made) == dict.fromkeys(ZONES, 2)
    assert made.simplified.moved == 4


def test_zones_that_cost_more_are_used_only_within_the_tolerance() -> None:
    costly = {
        "r.xlarge": {
            **SIZES["r.xlarge"],
            "offerings": [
                {"zone": zone, "capacityType": "on-demand", "pricePerHour": price}
                for zone, price in zip(ZONES, (0.25, 0.254, 0.4), strict=True)
            ],
        }
    }
    waiting = shop(pods(6, cpu="3500m", memory="28Gi"))

    assert zones(planned(waiting, FREE, costly)) == {ZONES[0]: 6}
    assert zones(planned(waiting, PlanTolerances(zones=0.01), costly)) == {ZONES[0]: 3, ZONES[1]: 3}


def test_many_pods_on_one_node_are_divided_between_two_zones_within_the_tolerance() -> None:
    types = {
        "large": instance_type("large", 32, 128, 1.0, pods=60),
        "half": instance_type("half", 16, 64, 0.502, pods=30),
    }
    waiting = shop(pods(30, cpu="1", memory="1Gi"))

    assert zones(planned(waiting, FREE, types)).total() == 1
    assert zones(planned(waiting, PlanTolerances(), types)) == {ZONES[0]: 1, ZONES[1]: 1}


def test_a_zone_spread_of_the_pods_is_kept() -> None:
    even = pods(6, cpu="3500m", memory="28Gi", topologySpreadConstraints=[spread(ZONE)])

    assert zones(planned(shop(even), FREE)).keys() == set(ZONES)


@examples(60, repeated=20)
@given(clusters(), st.sampled_from([FREE, PlanTolerances()]))
def test_the_last_step_keeps_every_rule_places_the_same_pods_and_stays_within_the_tolerances(
    lists: Mapping[str, Sequence[Any]], tolerances: PlanTolerances
) -> None:
    def within(tolerances: PlanTolerances | None) -> Plan:
        effort = Effort(steps=20)
        return plan(
            Snapshot.from_lists(lists),
            Catalogue.from_json(CATALOGUE),
            classes=CLASSES,
            effort=effort,
            tolerances=tolerances,
        )

    found, made = within(None), within(tolerances)
    most = 1 + tolerances.fewer_nodes + tolerances.zones + 1e-4

    assert check_plan(lists, CATALOGUE, made.to_json()) == []
    assert {one.pod for one in made.pending} == {one.pod for one in found.pending}
    assert made.price_per_hour <= found.price_per_hour * most + 1e-9
    assert made.price_per_hour == pytest.approx(found.price_per_hour + made.simplified.price_per_hour)
