"""The planner fulfils preferences that cost nothing and relaxes the others: no pod waits, and no price rises."""

from typing import Any

from joiner.planning import PlanPolicies
from tests.unit.planning.checked_plans import checked, cluster, drawn
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    near,
    node,
    node_pool,
    pod,
    pods,
    running,
    spread,
)


def liking(*preferences: tuple[int, str, list[str]]) -> dict[str, Any]:
    preferred = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}}
        for weight, key, values in preferences
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def soft(key: str = ZONE) -> Json:
    return {**spread(key), "whenUnsatisfiable": "ScheduleAnyway"}


def wanting(kind: str, term: Json) -> dict[str, Any]:
    return {
        "affinity": {
            kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
        }
    }


def test_the_preferred_zone_is_taken_where_it_costs_the_same() -> None:
    assert drawn(checked(cluster([pod("web-0", **liking((10, ZONE, [ZONES[2]])))]))) == ["g.large c spot: web-0"]


def test_no_preference_counts_where_the_settings_ignore_them() -> None:
    liked = [pod("web-0", **liking((10, ZONE, [ZONES[2]])))]

    assert drawn(checked(cluster(liked), policies=PlanPolicies(preferences=False))) == ["g.large a spot: web-0"]


def test_the_heavier_of_two_preferences_wins() -> None:
    both = liking((10, ZONE, [ZONES[1]]), (90, ZONE, [ZONES[2]]))

    assert drawn(checked(cluster([pod("web-0", **both)]))) == ["g.large c spot: web-0"]


def test_a_preference_raises_no_price() -> None:
    assert drawn(checked(cluster([pod("web-0", **liking((100, "kubernetes.io/arch", ["amd64"])))]))) == [
        "g.large a spot: web-0"
    ]


def test_a_preference_keeps_no_pod_pending() -> None:
    away = wanting("podAntiAffinity", near(HOST, "web"))
    plan = checked(cluster(pods(3, cpu="100m", memory="64Mi", **away), node_pool(limits={"nodes": "1"})))

    assert plan.pending == () and len(plan.nodes) == 1


def test_nodes_of_one_price_go_to_different_zones_where_pods_would_rather_be_spread() -> None:
    plan = checked(cluster(pods(3, cpu="1500m", topologySpreadConstraints=[soft()])))

    assert sorted(one.zone for one in plan.nodes) == sorted(ZONES)


def test_a_preference_counts_running_pods() -> None:
    there = running("web-9", "there", cpu="1")
    plan = checked(
        cluster([there, pod("web-0", topologySpreadConstraints=[soft()])], nodes=[node("there", zone=ZONES[0], cpu=1)])
    )

    assert [one.zone for one in plan.nodes] == [ZONES[1]]


def test_pods_go_near_others_that_they_would_rather_have_near() -> None:
    db = running("db-0", "there", app="db", cpu="1")
    plan = checked(
        cluster(
            [db, pod("web-0", **wanting("podAffinity", near(ZONE, "db")))], nodes=[node("there", zone=ZONES[1], cpu=1)]
        )
    )

    assert [one.zone for one in plan.nodes] == [ZONES[1]]


def test_pods_keep_away_from_others_where_they_would_rather_not_be_near() -> None:
    db = running("db-0", "there", app="db", cpu="1")
    plan = checked(
        cluster([db, pod("web-0", **wanting("podAntiAffinity", near(ZONE, "db")))], nodes=[node("there", cpu=1)])
    )

    assert [one.zone for one in plan.nodes] != [ZONES[0]]


def test_a_preference_never_breaks_a_rule_of_other_pods() -> None:
    hard = pods(2, "api", cpu="1500m", topologySpreadConstraints=[spread(app="api")], **liking((100, ZONE, [ZONES[0]])))
    together = pods(2, "db", cpu="1500m", **affinity(podAffinity=[near(ZONE, "db")]))
    plan = checked(cluster([*hard, *together]))

    assert plan.pending == ()
    assert plan.price_per_hour <= 4 * min(one["pricePerHour"] for one in CATALOGUE["g.large"]["offerings"]) + 1e-9
