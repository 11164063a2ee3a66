"""The placement group of a class: found or reported, and a cluster group in one zone."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from joiner.cluster import Requirements
from joiner.launching import Launch
from joiner.pools.conditions import Conditions
from joiner.pools.node_class import PlacementGroupTerm
from joiner.pools.resolved_node_class import PlacementGroup, ResolvedNodeClass
from tests.unit.launching.launch_scenario import TEMPLATE, launches, resolved, wanted

SELECTING = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023", placement_group=PlacementGroupTerm("together"))
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def group(strategy: str) -> dict[str, Any]:
    return {"GroupId": "pg-1", "GroupName": "together", "Strategy": strategy, "State": "available"}


@pytest.mark.parametrize(
    ("strategy", "zones", "expected"),
    [
        ("cluster", [], {"us-east-1a"}),
        ("cluster", ["us-east-1c"], {"us-east-1c"}),
        ("spread", ["us-east-1c"], {"us-east-1a", "us-east-1b", "us-east-1c"}),
        ("partition", [], {"us-east-1a", "us-east-1b", "us-east-1c"}),
    ],
)
def test_only_a_cluster_group_limits_the_zone(strategy: str, zones: list[str], expected: set[str]) -> None:
    found = resolved(SELECTING, placement_groups=[group(strategy)], group_zones=zones)

    assert set(found.zones) == expected
    assert found.placement_group == PlacementGroup("pg-1", "together", strategy)
    assert ResolvedNodeClass.from_json(found.to_json()) == found


def test_the_nodes_of_a_launch_in_a_group_have_its_id_as_a_label() -> None:
    inside, outside = resolved(SELECTING, placement_groups=[group("spread")]), resolved(TEMPLATE)

    (launch,), (other,) = launches(wanted("x", resolved=inside)), launches(wanted("y", resolved=outside))

    assert (dict(launch.labels), dict(other.labels)) == ({"karpenter.k8s.aws/placement-group-id": "pg-1"}, {})
    assert Launch.from_json(launch.to_json()) == launch


def test_a_group_that_does_not_exist_is_a_condition_of_the_class() -> None:
    found = resolved(SELECTING)

    conditions = found.conditions(Conditions(), at=NOON)

    assert (conditions["PlacementGroupReady"].status, conditions["Ready"].status) == ("False", "False")
    assert conditions["PlacementGroupReady"].message == (
        "spec.placementGroupSelector: no placement group together is available: create it, or select another"
    )


def test_a_cluster_group_in_a_zone_without_a_subnet_is_a_condition_of_the_class() -> None:
    found = resolved(SELECTING, placement_groups=[group("cluster")], group_zones=["us-east-1d"])

    conditions = found.conditions(Conditions(), at=NOON)

    assert conditions["PlacementGroupReady"].status == "False"
    assert conditions["PlacementGroupReady"].message == (
        "spec.placementGroupSelector: the instances of the placement group together are in us-east-1d, and the class "
        "selects no subnet there: select one, or another placement group"
    )


def test_only_a_class_with_a_group_has_its_condition() -> None:
    found = resolved(SELECTING, placement_groups=[group("spread")])

    assert found.conditions(Conditions(), at=NOON)["PlacementGroupReady"].true
    assert "PlacementGroupReady" not in str(resolved().conditions(Conditions(), at=NOON).to_kube())


def test_the_launch_template_names_the_group() -> None:
    (launch,) = launches(wanted("x", resolved=resolved(SELECTING, placement_groups=[group("spread")])))

    assert launch.templates[0].data["Placement"] == {"GroupId": "pg-1"}


@pytest.mark.parametrize(
    ("operator", "values", "partition"),
    [
        ("In", ["2"], 2),
        ("In", ["3", "2"], 2),
        ("NotIn", ["1"], 2),
        ("Exists", [], 1),
        ("In", ["9"], 0),
        ("DoesNotExist", [], 0),
        ("", [], 0),
    ],
)
def test_a_pools_requirement_decides_the_partition_of_its_nodes(
    operator: str, values: list[str], partition: int
) -> None:
    key = "karpenter.k8s.aws/placement-group-partition"
    required = [{"key": key, "operator": operator, "values": values}] if operator else []
    found = resolved(SELECTING, placement_groups=[{**group("partition"), "PartitionCount": 3}])
    one = wanted("x", resolved=found)
    pool = replace(one.pool, requirements=Requirements.from_kube(required))

    (launch,) = launches(replace(one, pool=pool))

    chosen = {"PartitionNumber": partition} if partition else {}
    assert launch.templates[0].data["Placement"] == {"GroupId": "pg-1", **chosen}
    assert launch.labels.get(key, "") == (str(partition) if partition else "")
    assert ResolvedNodeClass.from_json(found.to_json()) == found
