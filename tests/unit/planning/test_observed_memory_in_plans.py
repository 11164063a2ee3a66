"""Plans use the memory that nodes of a type reported with the image that the class launches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools.resolved_node_class import Image
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node, node_pool, pods
from tests.unit.planning.test_in_flight import TYPE, claim

GIB = 2**30
ONLY_TYPE = node_pool(
    requirements=[
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
)


def planned(image: str, observed: Mapping[str, int], **running: Any) -> Plan:
    """Plan for two pods of half a node each, by the estimate, and a little more; the class launches `image`."""
    half = (16 * 1024 - 400) // 2 + 100
    lists = cluster(pods(2, memory=f"{half}Mi"), ONLY_TYPE, **running)
    types = {**CATALOGUE, TYPE: {**CATALOGUE[TYPE], "observedMemory": dict(observed)}}
    classes = {key: replace(one, images=(Image(image, "amd64"),)) for key, one in CLASSES.items()}
    return plan(Snapshot.from_lists(lists), Catalogue.from_json(types), classes=classes)


def test_nodes_of_the_image_had_more_memory_so_one_node_is_enough() -> None:
    found = planned("ami-1", {"ami-1": 17 * GIB})

    assert [each.pods for each in found.nodes] == [("default/web-0", "default/web-1")]
    assert found.nodes[0].capacity["memory"] == 17 * GIB


def test_the_memory_seen_with_another_image_does_not_count() -> None:
    assert len(planned("ami-2", {"ami-1": 17 * GIB}).nodes) == 2


def test_a_node_that_runs_now_counts_before_the_catalogue_is_refreshed() -> None:
    own = claim(initialized=True)
    own["status"]["imageID"] = "ami-1"
    own["status"]["providerID"] = "aws:///us-test-1a/i-full"
    full = node("full", cpu=4, gib=12, taints=[{"key": "reserved", "effect": "NoSchedule"}])

    found = planned("ami-1", {"ami-1": 17 * GIB}, nodeclaims=[own], nodes=[full])

    assert [each.capacity["memory"] for each in found.nodes] == [12 * GIB] * 2, "the least memory counts"
