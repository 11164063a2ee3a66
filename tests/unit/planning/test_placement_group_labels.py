"""Pods that select the placement group of nodes by its label."""

from dataclasses import replace

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot, plan
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
