"""Pods that select the placement group of nodes by its label."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools.resolved_node_class import PlacementGroup
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node_pool, pods

TOGETHER = PlacementGroup("pg-1", "together", "spread")


def planned(group: PlacementGroup | None, selected: str) -> Plan:
    """Plan for one pod that selects a placement group; the class of the pool has `group`."""
    lists = cluster(pods(1, nodeSelector={names.PLACEMENT_GROUP: selected}), node_pool())
    classes = {key: replace(one, placement_group=group) for key, one in CLASSES.items()}
    return plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes)


@pytest.mark.parametrize(
    ("group", "selected", "nodes"), [(TOGETHER, "pg-1", 1), (TOGETHER, "pg-2", 0), (None, "pg-1", 0)]
)
def test_a_pod_that_selects_a_placement_group_gets_a_node_of_a_class_in_it(
    group: PlacementGroup | None, selected: str, nodes: int
) -> None:
    found = planned(group, selected)

    assert (len(found.nodes), len(found.pending)) == (nodes, 1 - nodes)


@pytest.mark.parametrize(
    ("group", "zone", "nodes"),
    [
        (TOGETHER, "*@pg-1", 0),
        (TOGETHER, "*@pg-2", 1),
        (None, "*@pg-1", 1),
        (TOGETHER, "*", 0),
        (None, "*", 0),
    ],
    ids=["of its group", "of another group", "of a group, without one", "of the zones", "of the zones, without one"],
)
def test_a_shortage_in_a_placement_group_concerns_only_classes_in_it(
    group: PlacementGroup | None, zone: str, nodes: int
) -> None:
    classes = {key: replace(one, placement_group=group) for key, one in CLASSES.items()}
    snapshot = Snapshot.from_lists(cluster(pods(1), node_pool()))
    short = {("on-demand", "*", zone), ("spot", "*", zone)}

    found = plan(snapshot, Catalogue.from_json(CATALOGUE), short, classes=classes)

    assert (len(found.nodes), len(found.pending)) == (nodes, 1 - nodes)


RACKS = PlacementGroup("pg-1", "racks", "partition", 3)


def partition_pool(number: int) -> Mapping[str, Any]:
    """Return a pool whose nodes are in one partition."""
    required = {"key": names.PLACEMENT_PARTITION, "operator": "In", "values": [str(number)]}
    return node_pool(f"rack-{number}", requirements=[required])


def partitions_of(found: Plan) -> list[str]:
    return sorted(each.labels.get(names.PLACEMENT_PARTITION, "") for each in found.nodes)


def test_a_pod_that_selects_a_partition_gets_a_node_of_the_pool_of_that_partition() -> None:
    lists = cluster(pods(1, nodeSelector={names.PLACEMENT_PARTITION: "2"}), partition_pool(1), partition_pool(2))
    classes = {key: replace(one, placement_group=RACKS) for key, one in CLASSES.items()}

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes)
    outside = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES)

    assert [(each.pool, each.labels[names.PLACEMENT_PARTITION]) for each in found.nodes] == [("NodePool/rack-2", "2")]
    assert (len(outside.nodes), len(outside.pending)) == (0, 1), "the class has no placement group"


def test_pods_are_spread_over_partitions_by_a_pool_for_each() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": names.PLACEMENT_PARTITION,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "store"}},
    }
    stores = pods(3, topologySpreadConstraints=[spread])
    for each in stores:
        each["metadata"]["labels"] = {"app": "store"}
    lists = cluster(stores, *map(partition_pool, (1, 2, 3)))
    classes = {key: replace(one, placement_group=RACKS) for key, one in CLASSES.items()}

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes)

    assert (partitions_of(found), found.pending) == (["1", "2", "3"], ())


@pytest.mark.parametrize(
    ("group", "key", "value", "has"),
    [
        (None, names.PLACEMENT_GROUP, "pg-1", f"no label {names.PLACEMENT_GROUP}"),
        (TOGETHER, names.PLACEMENT_GROUP, "pg-2", f"{names.PLACEMENT_GROUP} pg-1"),
        (TOGETHER, names.PLACEMENT_PARTITION, "1", f"no label {names.PLACEMENT_PARTITION}"),
    ],
)
def test_a_pool_that_requires_another_placement_group_than_that_of_its_class_has_the_class_as_its_reason(
    group: PlacementGroup | None, key: str, value: str, has: str
) -> None:
    pool = node_pool(requirements=[{"key": key, "operator": "In", "values": [value]}])
    classes = {name: replace(one, placement_group=group) for name, one in CLASSES.items()}

    made = plan(Snapshot.from_lists(cluster(pods(1), pool)), Catalogue.from_json(CATALOGUE), classes=classes)

    cause = f"spec.placementGroupSelector: its nodes have {has}, and the pool requires {key} In [{value}]: change "
    (reason,) = made.pending[0].reasons
    assert cause in reason.reason
    assert any(cause in one.message for one in made.problems if one.object == "NodePool/default")
