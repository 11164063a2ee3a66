"""The scheduler's default topology spread constraints in plans. The independent checker verifies every plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from joiner.planning import Snapshot
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import by_zone, checked, cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, HOST, ZONE, ZONES, Json, node, planned, pods, running, spread

HARD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
SERVICE: Json = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
MATCH = {"matchLabels": {"app": "web"}}
EVEN = {"a": 1, "b": 1, "c": 1}


def owned(waiting: Sequence[dict[str, Any]], kind: str, name: str = "web") -> list[dict[str, Any]]:
    """Return the pods with this controller."""
    for one in waiting:
        one["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]
    return list(waiting)


def owner(selector: Mapping[str, Any], name: str = "web", namespace: str = "default") -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}


@pytest.mark.parametrize(
    ("kind", "plural", "selector"),
    [
        ("ReplicaSet", "replicasets", MATCH),
        ("ReplicaSet", "replicasets", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
        ("StatefulSet", "statefulsets", MATCH),
        ("ReplicationController", "replicationcontrollers", {"app": "web"}),
        ("ReplicaSet", "deployments", MATCH),
    ],
    ids=["ReplicaSet", "expression", "StatefulSet", "ReplicationController", "Deployment before its ReplicaSet"],
)
def test_the_pods_of_each_controller_are_spread(kind: str, plural: str, selector: Mapping[str, Any]) -> None:
    plan = planned(cluster(owned(pods(3), kind), **{plural: [owner(selector)]}), default_spreads=[HARD])

    assert sorted(node.zone for node in plan.nodes) == sorted(ZONES)


def test_the_pods_of_a_service_are_spread_and_those_that_nothing_selects_are_not() -> None:
    assert by_zone(cluster(pods(3), services=[SERVICE]), default_spreads=[HARD]) == EVEN
    for other in ("jobs", "elsewhere"):
        service = owner({"app": "web"}, namespace=other)
        assert len(checked(cluster(pods(3), services=[service]), default_spreads=[HARD]).nodes) == 1
    assert len(checked(cluster(owned(pods(3), "Job")), default_spreads=[HARD]).nodes) == 1


def test_constraints_of_the_pod_replace_the_defaults_also_if_they_are_preferences() -> None:
    soft = {**spread(HOST), "whenUnsatisfiable": "ScheduleAnyway"}
    lists = cluster(pods(3, topologySpreadConstraints=[soft]), services=[SERVICE])
    snapshot = Snapshot.from_lists(lists, default_spreads=[HARD])

    assert {one.topology_key for pod in snapshot.pods for one in pod.constraints.spreads} == {HOST}
    assert checked(lists, default_spreads=[HARD]).pending == ()


def test_each_of_two_workloads_with_the_same_template_is_spread_for_itself() -> None:
    """Their pods are of one class, because the class of a pod without rules about pods has no labels."""
    waiting = [*owned(pods(3, "web"), "ReplicaSet", "web"), *owned(pods(3, "api"), "ReplicaSet", "api")]
    sets = [owner({"matchLabels": {"app": name}}, name) for name in ("web", "api")]
    lists = cluster(waiting, replicasets=sets)
    plan = checked(lists, default_spreads=[HARD])

    for app in ("web", "api"):
        zones = [node.zone for node in plan.nodes for name in node.pods if name.startswith(f"default/{app}")]
        assert sorted(zones) == sorted(ZONES)


def test_pods_that_run_count() -> None:
    there = [running(f"web-{number}", "there", cpu="300m") for number in (7, 8)]
    lists = cluster([*there, *pods(4)], nodes=[node("there", cpu=1)], services=[SERVICE])

    assert by_zone(lists, default_spreads=[HARD]) == {"a": 0, "b": 2, "c": 2}


def test_a_pod_that_the_defaults_keep_from_all_zones_stays_pending() -> None:
    lists = cluster(pods(3, nodeSelector={ZONE: ZONES[0]}), services=[SERVICE])
    far = {**HARD, "minDomains": 3}

    assert len(checked(lists, default_spreads=[far]).pending) == 2
    assert checked(lists).pending == ()


def test_a_default_that_is_a_preference_keeps_no_pod_pending_and_costs_nothing() -> None:
    soft = {**HARD, "whenUnsatisfiable": "ScheduleAnyway"}
    lists = cluster(pods(3), services=[SERVICE])

    assert checked(lists, default_spreads=[soft]).price_per_hour == checked(lists).price_per_hour


def test_the_checker_finds_a_plan_that_ignores_the_defaults() -> None:
    lists = cluster(owned(pods(3), "ReplicaSet"), replicasets=[owner(MATCH)])
    ignoring = planned(lists).to_json()

    assert check_plan(lists, CATALOGUE, ignoring) == []
    assert check_plan(lists, CATALOGUE, ignoring, default_spreads=[HARD]) != []


def test_the_clusters_default_constraints_are_for_pods_that_have_none() -> None:
    service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    default = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    lists = cluster(
        [*pods(3), *pods(3, "db", topologySpreadConstraints=[spread(app="db", skew=3)]), *pods(1, "lone")],
        services=[service],
    )
    plan = checked(lists, default_spreads=[default])

    web = [one.zone for one in plan.nodes for name in one.pods if name.startswith("default/web")]
    assert sorted(web) == sorted(ZONES)
