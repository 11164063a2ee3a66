"""Batches in which pods have affinity or anti-affinity to others, and which are too large for an exhaustive search."""

from typing import Any

from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import HOST, ZONE, ZONES, affinity, instance_type, near, pods, spread

LEADERS = {"t.small": instance_type("t.small", 1, 2, 0.03), "s.large": instance_type("s.large", 2, 4, 0.08)}


def followers(count: int, **more: Any) -> list[dict[str, Any]]:
    kinds = {"podAffinity": [near(HOST, "lead")], **more.pop("rules", {})}
    return pods(count, "follow", cpu="500m", **affinity(**kinds), **more)


def test_pods_that_others_must_be_beside_one_each_are_spread_over_nodes() -> None:
    leaders = [{**one, "spec": {**one["spec"], "priority": 10}} for one in pods(8, "lead", cpu="900m")]
    plan = checked(
        cluster([*leaders, *followers(8, rules={"podAntiAffinity": [near(HOST, "follow")]})]), catalogue=LEADERS
    )

    assert plan.pending == ()
    assert sorted(len(one.pods) for one in plan.nodes) == [2] * 8


def test_a_node_leaves_as_many_leaders_as_followers_need_elsewhere() -> None:
    level = [spread(HOST, app="follow", skew=2)]
    plan = checked(cluster([*pods(10, "lead", cpu="100m"), *followers(20, topologySpreadConstraints=level)]))

    assert plan.pending == ()
    assert len(plan.nodes) == 10


def test_a_pod_that_others_follow_moves_with_them_to_another_zone() -> None:
    apart = {"podAffinity": [near(ZONE, "lead")], "podAntiAffinity": [near(ZONE, "follow")]}
    plan = checked(cluster([*pods(3, "lead", cpu="100m"), *pods(20, "other"), *followers(3, rules=apart)]))

    assert plan.pending == ()
    assert {one.zone for one in plan.nodes if any("follow" in pod for pod in one.pods)} == set(ZONES)


THREE = {
    "t.small": instance_type("t.small", 1, 2, 0.02),
    "c.xlarge": instance_type("c.xlarge", 4, 8, 0.075),
    "m.2xlarge": instance_type("m.2xlarge", 8, 32, 0.17),
}


def test_pods_kept_apart_from_others_by_host_are_on_nodes_of_their_size() -> None:
    large = pods(8, "web", cpu="1800m", memory="3Gi", **affinity(podAntiAffinity=[near(HOST, "api")]))
    plan = checked(cluster([*large, *pods(1, "api", cpu="400m", memory="1Gi")]), catalogue=THREE)

    assert sorted(one.instance_type for one in plan.nodes) == [*["c.xlarge"] * 4, "t.small"]


def test_pods_that_may_go_anywhere_leave_a_zone_to_those_that_they_keep_out() -> None:
    apart = affinity(podAntiAffinity=[near(ZONE, "db"), near(HOST, "db")])
    level = affinity(podAntiAffinity=[near(HOST, "web")])
    waiting = [
        *pods(12, "web", cpu="100m", **apart),
        *pods(12, "api", cpu="900m", memory="3Gi", topologySpreadConstraints=[spread(app="api")], **level),
        *pods(12, "db", cpu="900m", memory="1Gi"),
    ]

    assert checked(cluster(waiting), catalogue=THREE).pending == ()
