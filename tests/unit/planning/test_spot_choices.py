"""The offers among which EC2 may choose for a spot node: all types that hold its pods and cost no more than the
cheapest on-demand node, within the limits of the pool and the ceiling of the cluster.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.planning import Ceilings, Plan, PlannedNode
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import ZONES, Json, instance_type, node_pool, pod, pods

CAPACITY_TYPE = "karpenter.sh/capacity-type"


def types_at(*prices: float, cpu: int = 2, zones: tuple[str, ...] = (ZONES[0],)) -> dict[str, Json]:
    """Return types of one size: ``t0.large`` at the first on-demand price; spot costs a third of it."""
    return {
        f"t{at}.large": instance_type(f"t{at}.large", cpu, 8, price, zones=zones) for at, price in enumerate(prices)
    }


def choices(node: PlannedNode) -> list[str]:
    return sorted({one.instance_type for one in node.alternatives})


def only(plan: Plan) -> PlannedNode:
    (node,) = plan.nodes
    return node


def test_a_spot_node_may_be_any_type_that_is_cheaper_than_the_cheapest_on_demand_node() -> None:
    catalogue = types_at(0.10, 0.15, 0.25, 0.31)  # as spot, each is about a third of it

    assert choices(only(checked(cluster([pod("web-0")]), catalogue=catalogue))) == ["t0.large", "t1.large", "t2.large"]


def test_an_on_demand_node_keeps_to_offers_of_about_its_price() -> None:
    on_demand = node_pool(requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}])
    catalogue = types_at(0.10, 0.105, 0.15)

    plan = checked(cluster([pod("web-0")], on_demand), catalogue=catalogue)

    assert choices(only(plan)) == ["t0.large", "t1.large"]


def test_a_pool_of_spot_alone_may_use_any_type() -> None:
    spot = node_pool(requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]}])

    plan = checked(cluster([pod("web-0")], spot), catalogue=types_at(0.10, 0.31, 0.90))

    assert choices(only(plan)) == ["t0.large", "t1.large", "t2.large"]


def test_types_that_are_too_small_for_the_pods_are_no_choice() -> None:
    catalogue = {**types_at(0.10), "small.large": instance_type("small.large", 1, 8, 0.09, zones=ZONES[:1])}

    assert choices(only(checked(cluster([pod("web-0", cpu="1500m")]), catalogue=catalogue))) == ["t0.large"]


def labelled(known: Json, **labels: str) -> Json:
    return {
        **known,
        "labels": {**known["labels"], **{f"karpenter.k8s.aws/{k.replace('_', '-')}": v for k, v in labels.items()}},
    }


EXOTIC: Mapping[str, Json] = {
    "t1.metal": labelled(instance_type("t1.metal", 2, 8, 0.12, zones=ZONES[:1]), instance_size="metal"),
    "t2.large": labelled(instance_type("t2.large", 2, 8, 0.12, zones=ZONES[:1]), instance_gpu_count="1"),
    "t3.large": labelled(instance_type("t3.large", 2, 8, 0.12, zones=ZONES[:1]), instance_accelerator_count="1"),
}


def test_metal_and_accelerators_are_no_choice_for_a_node_without_them() -> None:
    assert choices(only(checked(cluster([pod("web-0")]), catalogue={**types_at(0.10), **EXOTIC}))) == ["t0.large"]


def test_metal_and_accelerators_are_choices_where_the_node_has_them() -> None:
    assert choices(only(checked(cluster([pod("web-0")]), catalogue=dict(EXOTIC)))) == [
        "t1.metal",
        "t2.large",
        "t3.large",
    ]


@pytest.mark.parametrize(
    ("limit", "expected"), [("4", ["t0.large"]), ("8", ["big.large", "t0.large"]), ("7", ["t0.large"])]
)
def test_a_limit_of_the_pool_bears_the_largest_choice_of_every_node(limit: str, expected: list[str]) -> None:
    """Two nodes of 2 vCPUs, each of which may become one of 4."""
    catalogue = {**types_at(0.10), "big.large": instance_type("big.large", 4, 8, 0.21, zones=ZONES[:1])}
    waiting = [pod(f"web-{at}", cpu="1500m") for at in range(2)]

    plan = checked(cluster(waiting, node_pool(limits={"cpu": limit})), catalogue=catalogue)

    assert [choices(node) for node in plan.nodes] == [expected, expected]


def test_the_ceiling_of_the_cluster_bears_the_most_expensive_choice() -> None:
    fields: Any = {"ceilings": Ceilings(price_per_hour=0.045)}

    plan = checked(cluster([pod("web-0")]), catalogue=types_at(0.10, 0.12, 0.15), **fields)

    assert choices(only(plan)) == ["t0.large", "t1.large"]


def test_a_fleet_gets_at_most_sixty_types_and_a_hundred_and_twenty_offers() -> None:
    many = types_at(*(0.10 + 0.001 * at for at in range(90)), zones=tuple(ZONES))

    node = only(checked(cluster(pods(1)), catalogue=many))

    assert (len(node.alternatives), len(choices(node))) == (120, 40)
    assert node.alternatives[0] == node.offer
    narrow = {
        name: {**one, "offerings": [each for each in one["offerings"] if each["zone"] == ZONES[0]]}
        for name, one in many.items()
    }
    assert len(choices(only(checked(cluster(pods(1)), catalogue=narrow)))) == 60
