"""Plans warn of nodes that one instance type alone can hold, and count every type that pods could get instead."""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import PlanTolerances, Snapshot
from joiner.planning.planner import plan
from tests.unit.planning.drawn_clusters import CLASSES, instance_type, node_pool, pods

CHEAP = instance_type("cheap", 4, 16, 0.2)
IN_TYPE = "node.kubernetes.io/instance-type"
ANYTHING = "all 4 new nodes can only be of the type cheap: if EC2 has no capacity for it, "


def of_capacity(*capacity_types: str) -> dict[str, Any]:
    return {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [*capacity_types]}


def sold_as(made: Mapping[str, Any], capacity_type: str) -> dict[str, Any]:
    return {**made, "offerings": [one for one in made["offerings"] if one["capacityType"] == capacity_type]}


def annotated(pool: Mapping[str, Any], **annotations: str) -> dict[str, Any]:
    named = {f"joiner.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {**pool, "metadata": {**pool["metadata"], "annotations": named}}


def single_type_warnings(
    other: Mapping[str, Any], *pools: Mapping[str, Any], cheap: Mapping[str, Any] = CHEAP, **of_pods: Any
) -> list[str]:
    """Return what a plan with four nodes of the type ``cheap`` says of them."""
    lists: dict[str, list[Any]] = {"pods": pods(4, cpu="3", **of_pods), "nodepools": [*pools]}
    types = Catalogue.from_json({"cheap": cheap, "other": other})
    made = plan(Snapshot.from_lists(lists), types, classes=CLASSES, tolerances=PlanTolerances())
    assert [node.instance_type for node in made.nodes] == ["cheap"] * 4
    return [one for one in made.warnings if "can only be" in one]


MORE_EXPENSIVE = instance_type("other", 4, 16, 0.9)
ANY_CAPACITY = node_pool(requirements=[of_capacity("spot", "on-demand")])
ON_DEMAND = node_pool(requirements=[of_capacity("on-demand")])
METAL = instance_type("other", 4, 16, 0.21)
METAL_LABELS = {**METAL["labels"], "karpenter.k8s.aws/instance-size": "metal", IN_TYPE: "other.metal"}


@pytest.mark.parametrize(
    ("other", "pool", "cheap"),
    [
        pytest.param(MORE_EXPENSIVE, ON_DEMAND, CHEAP, id="it costs far more"),
        pytest.param(
            MORE_EXPENSIVE, annotated(ANY_CAPACITY, capacity_mix="spot=50%"), CHEAP, id="beside a capacity mix"
        ),
        pytest.param(
            sold_as(MORE_EXPENSIVE, "on-demand"),
            ANY_CAPACITY,
            sold_as(CHEAP, "spot"),
            id="it has another capacity type",
        ),
        pytest.param(
            instance_type("other", 16, 64, 0.9), annotated(ON_DEMAND, blast_radius="4"), CHEAP, id="beyond the radius"
        ),
        pytest.param({**METAL, "labels": METAL_LABELS}, ON_DEMAND, CHEAP, id="it is bare metal"),
        pytest.param(
            {**MORE_EXPENSIVE, "offerings": MORE_EXPENSIVE["offerings"][:2]},
            ON_DEMAND,
            CHEAP,
            id="it is sold in one zone",
        ),
        pytest.param(
            instance_type("other", 8, 32, 0.21),
            node_pool(requirements=[of_capacity("on-demand")], limits={"cpu": "20"}),
            sold_as(instance_type("cheap", 4, 16, 0.05), "on-demand"),
            id="it has more of a limited resource",
        ),
    ],
)
def test_another_type_that_holds_the_pods_is_an_alternative(
    other: Mapping[str, Any], pool: Mapping[str, Any], cheap: Mapping[str, Any]
) -> None:
    assert single_type_warnings(other, pool, cheap=cheap) == []


def test_a_type_of_another_pool_is_an_alternative_if_the_pods_tolerate_its_taints() -> None:
    first = node_pool("first", requirements=[{"key": IN_TYPE, "operator": "In", "values": ["cheap"]}], weight=10)
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    second = node_pool("second", requirements=[of_capacity("on-demand")], taints=[taint])
    tolerations = [{"key": "team", "operator": "Exists"}]

    assert single_type_warnings(MORE_EXPENSIVE, first, second, tolerations=tolerations) == []
    assert single_type_warnings(MORE_EXPENSIVE, first, second) == [
        f"{ANYTHING}their pods stay pending; allow more types in the pool"
    ]


def test_a_type_that_is_too_small_or_that_the_pool_excludes_is_none() -> None:
    small = instance_type("other", 2, 16, 0.01)
    only = node_pool(requirements=[{"key": IN_TYPE, "operator": "In", "values": ["cheap"]}])
    expected = [f"{ANYTHING}their pods stay pending; allow more types in the pool"]

    assert single_type_warnings(small, ON_DEMAND) == expected
    assert single_type_warnings(MORE_EXPENSIVE, only) == expected


def test_pods_that_exclude_the_other_types_of_the_pool_are_named() -> None:
    assert single_type_warnings(MORE_EXPENSIVE, ON_DEMAND, nodeSelector={IN_TYPE: "cheap"}) == [
        f"{ANYTHING}their pods stay pending; the pods exclude other types: allow more there"
    ]


def test_the_nodes_of_static_pools_may_be_of_all_types_of_the_pool() -> None:
    def found(*types: str) -> list[str]:
        requirements = [of_capacity("on-demand"), {"key": IN_TYPE, "operator": "In", "values": [*types]}]
        lists = {"pods": [], "nodepools": [node_pool("fixed", replicas=4, requirements=requirements)]}
        catalogue = Catalogue.from_json({"cheap": CHEAP, "other": MORE_EXPENSIVE})
        made = plan(Snapshot.from_lists(lists), catalogue, classes=CLASSES, tolerances=PlanTolerances())
        assert [node.instance_type for node in made.nodes] == ["cheap"] * 4
        return [one for one in made.warnings if "can only be" in one]

    assert found("cheap", "other") == []
    assert found("cheap") == [f"{ANYTHING}none of them is launched; allow more types in the pool"]
