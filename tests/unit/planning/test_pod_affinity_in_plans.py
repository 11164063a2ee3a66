"""Pod affinity and anti-affinity in plans: namespaces, revisions, running pods.

The independent checker verifies every plan.
"""

import pytest

from tests.unit.planning.checked_plans import by_zone, checked, cluster, drawn
from tests.unit.planning.drawn_clusters import (
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    instance_type,
    near,
    node,
    planned,
    pod,
    pods,
    running,
    spread,
)

NAMESPACES = [
    {"metadata": {"name": "default", "labels": {"team": "red"}}},
    {"metadata": {"name": "shop", "labels": {"team": "blue"}}},
]


@pytest.mark.parametrize(
    ("reach", "meant"),
    [
        ({}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}, True),
    ],
)
def test_anti_affinity_reaches_the_namespaces_that_it_names(reach: Json, meant: bool) -> None:
    there = running("db-0", "there", app="db", namespace="shop", cpu="100m")
    away = pod("web-0", cpu="100m", **affinity(podAntiAffinity=[{**near(HOST, "db"), **reach}]))
    plan = checked(cluster([there, away], nodes=[node("there")], namespaces=NAMESPACES))

    assert bool(plan.nodes) == meant


def test_a_running_pod_keeps_others_out_of_its_domain() -> None:
    wary = running("db-0", "there", app="db", **affinity(podAntiAffinity=[near(ZONE, "web")]))

    assert by_zone(cluster([wary, *pods(2)], nodes=[node("there", zone=ZONES[0])])) == {"a": 0, "b": 2, "c": 0}


def test_a_terminating_pod_excludes_no_pod() -> None:
    wary = running("db-0", "there", app="db", cpu="100m", **affinity(podAntiAffinity=[near(HOST, "web")]))
    wary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert planned(cluster([wary, pod("web-0")], nodes=[node("there")])).nodes == ()


def test_pods_of_other_tenants_are_excluded_and_those_of_the_own_are_not() -> None:
    """mismatchLabelKeys: each tenant has nodes of its own."""
    apart = {
        "topologyKey": HOST,
        "labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]},
        "mismatchLabelKeys": ["tenant"],
    }
    waiting = [
        pod(f"{tenant}-{number}", cpu="100m", **affinity(podAntiAffinity=[apart]))
        for tenant in ("a", "b")
        for number in range(2)
    ]
    for one in waiting:
        one["metadata"]["labels"]["tenant"] = one["metadata"]["name"][0]

    assert sorted(drawn(checked(cluster(waiting)))) == ["g.large a spot: a-0 a-1", "g.large a spot: b-0 b-1"]


def test_affinity_with_match_label_keys_follows_ones_own_revision() -> None:
    together = {**near(ZONE, "web"), "matchLabelKeys": ["pod-template-hash"]}
    old = running("web-old", "there", cpu="100m")
    old["metadata"]["labels"]["pod-template-hash"] = "1"
    new = pods(2, cpu="1500m", nodeSelector={ZONE: ZONES[1]}, **affinity(podAffinity=[together]))
    for one in new:
        one["metadata"]["labels"]["pod-template-hash"] = "2"

    assert by_zone(cluster([old, *new], nodes=[node("there", zone=ZONES[0])])) == {"a": 0, "b": 2, "c": 0}


def test_all_terms_of_affinity_must_hold_for_the_same_pods() -> None:
    both = affinity(
        podAffinity=[near(ZONE, "db"), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "gold"}}}]
    )
    db = running("db-0", "there", app="db", cpu="100m")
    gold = running("gold-0", "there", app="other", cpu="100m")
    gold["metadata"]["labels"]["tier"] = "gold"
    lists = cluster([db, gold, pod("web-0", **both)], nodes=[node("there")])

    assert len(checked(lists).pending) == 1
    db["metadata"]["labels"]["tier"] = "gold"
    assert checked(lists).pending == ()


@pytest.mark.parametrize(
    ("there", "waiting", "left"),
    [
        pytest.param(
            [node("old"), running("r", "old", app="a", ports=[8000])],
            [pod("p", ports=[8000], **affinity(podAffinity=[near(HOST, "a")]))],
            1,
            id="its host, by a port",
        ),
        pytest.param(
            [node("old"), running("r", "old", app="a", **affinity(podAntiAffinity=[near(HOST, "a")]))],
            [pod("p", app="a", **affinity(podAffinity=[near(HOST, "a")]))],
            1,
            id="its host, by another's anti-affinity",
        ),
        pytest.param(
            [node("old", zone="us-test-1z"), running("r", "old", app="x", ports=[8000])],
            pods(8, "spread", app="spread", ports=[8000], topologySpreadConstraints=[spread(ZONE, app="spread")]),
            None,
            id="a zone without offers, by a port",
        ),
    ],
)
def test_pods_that_cannot_be_placed_exclude_no_others(there: list[Json], waiting: list[Json], left: int | None) -> None:
    """The node has the capacity for the pod, and another rule excludes it."""
    plan = checked(cluster([*there[1:], *waiting, *pods(5, "web")], nodes=there[:1]))

    placed = {name for one in plan.nodes for name in one.pods} | {name for one in plan.existing for name in one.pods}
    assert {f"default/web-{number}" for number in range(5)} <= placed
    assert left is None or len(plan.pending) == left


def test_pods_that_fit_on_an_existing_node_make_room_on_the_node_of_pods_that_share_a_host() -> None:
    catalogue = {"six": instance_type("six", 6, 16, 0.2), "eight": instance_type("eight", 8, 32, 0.4)}
    waiting = [
        *pods(5, "web", cpu="1", **affinity(podAffinity=[near(HOST, "web")])),
        *pods(2, "job", cpu="600m", **affinity(podAffinity=[near(HOST, "job")])),
        pod("db-0", app="db", cpu="180m"),
    ]
    plan = checked(cluster(waiting, nodes=[node("there", cpu=3)]), catalogue=catalogue)

    assert drawn(plan) == ["six a spot: web-0 web-1 web-2 web-3 web-4"]
    assert [(one.node, one.pods) for one in plan.existing] == [
        ("there", ("default/job-0", "default/job-1", "default/db-0"))
    ]
