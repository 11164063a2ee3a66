"""The rule about bare metal and accelerators costs no pod its place, breaks no other rule, and leaves the lower bound a
bound: where pods that ask for such types wait beside pods that do not, and where rules between pods need certain
zones or hosts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Plan, Snapshot
from joiner.planning.plan_policies import NO_CEILINGS
from joiner.planning.planner import Planner
from joiner.planning.relaxation.lower_bound import compute_lower_bound
from joiner.pools import ResolvedNodeClass, Subnet
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import CLASSES, ZONE, ZONES, Json, affinity, near, node, node_pool, pods, spread
from tests.unit.planning.test_exotic_types import HOST, gpu_pod, kind, requires

ON_DEMAND_ONLY = [requires("karpenter.sh/capacity-type", "on-demand")]
ON_DEMAND = node_pool(requirements=ON_DEMAND_ONLY)
IN_ONE_ZONE = {
    "m5.xlarge": kind("m5.xlarge", 4, 16, 0.2),
    "g5.xlarge": kind("g5.xlarge", 4, 16, 0.5, gpus=1, zones=ZONES[:2]),
}
"""Only a type with a GPU is offered in the second zone."""
CHEAP_GPUS = {
    "m5.large": kind("m5.large", 2, 8, 0.19),
    "m5.xlarge": kind("m5.xlarge", 4, 16, 0.334),
    "m5.2xlarge": kind("m5.2xlarge", 8, 32, 0.46),
    "g5.xlarge": kind("g5.xlarge", 4, 16, 0.098, gpus=2),
    "g5.2xlarge": kind("g5.2xlarge", 8, 32, 0.30, gpus=2),
}
KEEPS_WEB_AWAY = pods(1, "shy", cpu="100m", nodeName="full", **affinity(podAntiAffinity=[near(ZONE, "web")]))[0]
"""A pod on the node ``full`` of the first zone."""


def in_zone(zone: str) -> Json:
    return {"nodeSelector": {ZONE: zone}}


def zones_of(plan: Plan) -> dict[str, str]:
    return {pod: node.zone for node in plan.nodes for pod in node.pods}


def test_the_bound_is_no_higher_than_a_plan_of_both_kinds_of_pods_apart() -> None:
    asking = [gpu_pod("gpu-0", cpu="3"), gpu_pod("gpu-1", cpu="1500m")]
    others = [
        *pods(14, "a", cpu="900m", memory="6Gi"),
        *pods(11, "b", cpu="1900m", memory="3Gi"),
        *pods(8, "c", cpu="3500m", memory="3Gi"),
    ]
    apart = sum(checked(cluster(part, ON_DEMAND), catalogue=CHEAP_GPUS).price_per_hour for part in (asking, others))
    snapshot = Snapshot.from_lists(cluster([*asking, *others], ON_DEMAND))
    state = Planner().state(snapshot, Catalogue.from_json(CHEAP_GPUS), classes=CLASSES)

    made = checked(cluster([*asking, *others], ON_DEMAND), catalogue=CHEAP_GPUS)

    assert compute_lower_bound(state).price_per_hour <= apart
    assert made.price_per_hour <= apart + 1e-9
    assert {one.instance_type for one in made.nodes if not any("gpu" in pod for pod in one.pods)} == {"m5.2xlarge"}


def test_nodes_that_are_planned_again_keep_the_affinity_of_pods_on_the_others() -> None:
    catalogue = {
        "m5.xlarge": {**kind("m5.xlarge", 4, 16, 0.3), "offerings": offerings(0.3, 0.27)},
        "g5.xlarge": kind("g5.xlarge", 4, 16, 0.1, gpus=1),
    }
    beside_db = affinity(podAffinity=[near(ZONE, "db")])
    waiting = [
        gpu_pod("gpu", **in_zone(ZONES[0])),
        *pods(1, "db", cpu="3500m", memory="10Gi"),
        *pods(3, "web", cpu="1500m", memory="10Gi", **beside_db),
    ]

    made = checked(cluster(waiting, ON_DEMAND), catalogue=catalogue)

    assert made.pending == ()
    assert len({zone for pod, zone in zones_of(made).items() if "gpu" not in pod}) == 1


def offerings(*prices: float) -> list[Json]:
    """Return on-demand offerings at these prices in the first zones."""
    return [
        {"zone": zone, "capacityType": "on-demand", "pricePerHour": price}
        for zone, price in zip(ZONES, prices, strict=False)
    ]


@pytest.mark.parametrize(
    ("rule", "waiting"),
    [(affinity(podAntiAffinity=[near(ZONE, "web")]), 2), ({"topologySpreadConstraints": [spread()]}, 4)],
    ids=["apart", "spread"],
)
def test_a_zone_that_a_rule_needs_gets_a_type_with_devices_if_it_has_no_other(rule: Any, waiting: int) -> None:
    pool = node_pool(requirements=[requires(ZONE, *ZONES[:2])])

    made = checked(cluster(pods(waiting, **rule), pool), catalogue=IN_ONE_ZONE)

    assert made.pending == ()
    assert {(one.instance_type, one.zone) for one in made.nodes} == {("m5.xlarge", ZONES[0]), ("g5.xlarge", ZONES[1])}


def test_pods_that_running_pods_keep_out_of_the_other_zones_get_what_is_left() -> None:
    full = node("full", zone=ZONES[0], cpu=1)

    made = checked(cluster([KEEPS_WEB_AWAY, *pods(1, cpu="3")], nodes=[full]), catalogue=IN_ONE_ZONE)

    assert [(one.instance_type, one.zone) for one in made.nodes] == [("g5.xlarge", ZONES[1])]


def in_small_subnets(*free: int) -> dict[str, ResolvedNodeClass]:
    """Return the class with a subnet in each of the first zones that has so many free addresses."""
    subnets = tuple(Subnet(f"subnet-{zone}", zone, free_ips=left) for zone, left in zip(ZONES, free, strict=False))
    return {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}


def planned_by(lists: Any, catalogue: Json, classes: Mapping[str, ResolvedNodeClass] = CLASSES, **more: Any) -> Plan:
    return Planner().plan(Snapshot.from_lists(lists), Catalogue.from_json(catalogue), classes=classes, **more)


def test_the_bound_allows_the_types_of_the_last_resort_where_subnets_are_full() -> None:
    catalogue = {**IN_ONE_ZONE, "g5.xlarge": kind("g5.xlarge", 4, 16, 0.05, gpus=1, zones=ZONES[:2])}
    waiting = [*pods(3, cpu="3"), *pods(1, "db", cpu="3")]
    lists = cluster([KEEPS_WEB_AWAY, *waiting], ON_DEMAND, nodes=[node("full", zone=ZONES[0], cpu=1)])

    made = planned_by(lists, catalogue, in_small_subnets(9, 2))

    assert Counter(types_and_pods(made.nodes)) == {("m5.xlarge", 1): 1, ("g5.xlarge", 1): 2}
    assert made.lower_bound_per_hour <= 3 * 0.05 + 1e-9


LITTLE_MEMORY = {
    "c6.xlarge": kind("c6.xlarge", 4, 64, 0.3),
    **{
        f"g5.{size}xlarge": kind(f"g5.{size}xlarge", 4, 16, 1.0 + size / 100, gpus=1, zones=ZONES)
        for size in range(1, 9)
    },
}
"""A limit of memory may allow only the types with a GPU."""


def test_nodes_of_the_last_resort_have_alternatives_of_other_types_and_zones() -> None:
    spot = node_pool(requirements=[requires("karpenter.sh/capacity-type", "spot")], limits={"memory": "20Gi"})
    (node,) = checked(cluster(pods(1, cpu="1"), spot), catalogue=LITTLE_MEMORY).nodes

    assert {(one.instance_type, one.zone) for one in node.alternatives} == {
        (f"g5.{size}xlarge", zone) for size in range(1, 9) for zone in ZONES
    }


def test_nodes_of_the_last_resort_move_to_zones_with_free_addresses() -> None:
    pool = node_pool(requirements=ON_DEMAND_ONLY, limits={"memory": "60Gi"})

    made = planned_by(cluster(pods(3, cpu="3"), pool), LITTLE_MEMORY, in_small_subnets(1, 9, 9))

    assert made.pending == ()
    assert {one.instance_type for one in made.nodes} == {"g5.1xlarge"}
    assert Counter(one.zone for one in made.nodes)[ZONES[0]] <= 1


def test_pods_of_nodes_without_an_address_get_types_with_devices_in_other_zones() -> None:
    catalogue = {
        "m5.large": kind("m5.large", 2, 8, 0.1, zones=ZONES[:1]),
        "g5.xlarge": kind("g5.xlarge", 4, 16, 0.15, gpus=1, zones=ZONES[:2]),
    }

    made = planned_by(cluster(pods(4, cpu="1500m"), ON_DEMAND), catalogue, in_small_subnets(2, 9))

    assert made.pending == ()
    assert Counter(types_and_pods(made.nodes)) == {("m5.large", 1): 2, ("g5.xlarge", 2): 1}
    assert made.lower_bound_per_hour <= 2 * 0.15 + 1e-9  # that of a plan on the types of the last resort alone


@pytest.mark.parametrize(
    ("limits", "ceilings"),
    [({"limits": {"nodes": "1"}}, NO_CEILINGS), ({}, Ceilings(nodes=1))],
    ids=["pool", "settings"],
)
def test_pods_that_need_few_large_nodes_get_bare_metal_if_nothing_else_is_large(limits: Any, ceilings: Any) -> None:
    catalogue = {"m5.large": kind("m5.large", 2, 8, 0.1), "m5.metal": kind("m5.metal", 16, 64, 1.0)}
    pool = node_pool(requirements=ON_DEMAND_ONLY, **limits)

    made = planned_by(cluster(pods(8, cpu="1500m"), pool), catalogue, ceilings=ceilings)

    assert types_and_pods(made.nodes) == [("m5.metal", 8)]


def test_common_nodes_beside_those_of_the_last_resort_have_common_alternatives_only() -> None:
    catalogue = {
        "m5.large": kind("m5.large", 2, 8, 0.1),
        "m6.large": kind("m6.large", 2, 8, 0.105),
        "g5.large": kind("g5.large", 2, 8, 0.105, gpus=1),
        "m5.metal": kind("m5.metal", 16, 64, 1.0),
    }
    pool = node_pool(requirements=ON_DEMAND_ONLY, limits={"nodes": "2"})

    made = planned_by(cluster(pods(11, cpu="1500m"), pool), catalogue)

    alternatives = {one.instance_type: {each.instance_type for each in one.alternatives} for one in made.nodes}
    assert alternatives == {"m5.metal": {"m5.metal"}, "m5.large": {"m5.large", "m6.large"}}


def test_a_blast_radius_does_not_open_types_with_devices() -> None:
    pool = node_pool(requirements=ON_DEMAND_ONLY)
    pool["metadata"]["annotations"] = {"joiner.dev/blast-radius": "8"}
    catalogue = {"c6.4xlarge": kind("c6.4xlarge", 16, 32, 0.7), "g5.xlarge": kind("g5.xlarge", 4, 16, 0.5, gpus=1)}

    made = checked(cluster(pods(1, cpu="1"), pool), catalogue=catalogue)

    assert types_and_pods(made.nodes) == [("c6.4xlarge", 1)]


@pytest.mark.parametrize(("number", "placed"), [(5, 5), (10, 5)])
def test_of_pods_on_one_host_as_many_are_placed_as_bare_metal_holds(number: int, placed: int) -> None:
    catalogue = {"m5.xlarge": kind("m5.xlarge", 4, 16, 0.2), "m5.metal": kind("m5.metal", 16, 64, 1.0)}
    together = affinity(podAffinity=[near(HOST, "web")])

    made = checked(cluster(pods(number, cpu="3", **together)), catalogue=catalogue)

    assert types_and_pods(made.nodes) == [("m5.metal", placed)]


def types_and_pods(nodes: Sequence[Any]) -> list[tuple[str, int]]:
    return [(one.instance_type, len(one.pods)) for one in nodes]


def test_a_pod_that_a_limit_of_common_types_keeps_out_stays_pending_and_gets_no_device() -> None:
    pool = node_pool(limits={"cpu": "4"})
    catalogue = {**IN_ONE_ZONE, "g5.large": kind("g5.large", 4, 16, 0.01, gpus=1)}

    made = checked(cluster(pods(2, cpu="3"), pool), catalogue=catalogue)

    assert (types_and_pods(made.nodes), len(made.pending)) == ([("m5.xlarge", 1)], 1)
