"""Pods parsed from the bytes of a list equal the pods parsed from plain manifests."""

import json
from typing import Any

import pytest

from bench.growth import GeneratedLists, raw_pods
from joiner.cluster.list_pages import PODS, read_page
from joiner.planning import Snapshot
from tests.unit.planning.drawn_clusters import HOST, ZONE, affinity, near, pod, spread

RICH = [
    pod("plain", ports=(80,)),
    pod(
        "spread", topologySpreadConstraints=[spread(ZONE)], tolerations=[{"key": "a", "operator": "Exists"}], priority=7
    ),
    pod("apart", **affinity(podAntiAffinity=[near(HOST, "web")]), nodeSelector={"disk": "ssd"}, schedulerName="mine"),
    {
        **pod("init"),
        "spec": {**pod("init")["spec"], "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]},
    },
    {
        **pod("volume"),
        "spec": {**pod("volume")["spec"], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    },
    {
        **pod("resized", resources={"requests": {"cpu": "2"}}),
        "status": {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}},
    },
    {**pod("empty"), "spec": {"containers": None}},
]


def snapshot(pods: Any) -> Snapshot:
    return Snapshot.from_lists({"pods": pods})


@pytest.mark.parametrize("page", [json.dumps({"items": RICH}).encode(), *raw_pods(GeneratedLists(pods=30, classes=7))])
def test_nothing_that_matters_is_lost(page: bytes) -> None:
    assert snapshot(read_page(page, PODS)[0]) == snapshot(json.loads(page)["items"])


@pytest.mark.parametrize(
    "wrong", [{"items": [{"metadata": {"name": "a"}, "spec": {"containers": "none"}}]}, {"items": None}, {}]
)
def test_what_is_no_list_of_pods_is_handed_on_as_it_is(wrong: dict[str, Any]) -> None:
    assert read_page(json.dumps(wrong).encode(), PODS)[0] == list(wrong.get("items") or ())
