"""Batches with pods that no plan can place: the other pods are placed as if the hopeless pods were not there."""

import pytest

from joiner.planning import Plan
from tests.unit.planning.checked_plans import checked, cluster, drawn
from tests.unit.planning.drawn_clusters import (
    HOST,
    ZONE,
    ZONES,
    affinity,
    instance_type,
    near,
    node,
    node_pool,
    pods,
    running,
    spread,
)
from tests.unit.planning.volume_manifests import LATER, claim, mounting

SIZES = {
    "t.small": instance_type("t.small", 1, 2, 0.02),
    "s.large": instance_type("s.large", 2, 4, 0.04),
    "c.xlarge": instance_type("c.xlarge", 4, 8, 0.075),
}
ONE_ZONE = node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [ZONES[0]]}])


def waiting(plan: Plan) -> list[str]:
    return sorted(one.pod.removeprefix("default/") for one in plan.pending)


def test_a_node_has_capacity_for_the_pods_that_must_be_beside_the_only_pod_of_their_kind() -> None:
    three_zones = {"topologySpreadConstraints": [spread(app="api", minDomains=2)]}
    beside = affinity(podAffinity=[near(HOST, "api")])
    plan = checked(cluster([*pods(3, "api", **three_zones), *pods(3, "web", **beside)], ONE_ZONE), catalogue=SIZES)

    assert drawn(plan) == ["c.xlarge a spot: api-0 web-0 web-1 web-2"]
    assert waiting(plan) == ["api-1", "api-2"]


@pytest.mark.parametrize(("api", "web", "cpu"), [(4, 2, 1900), (3, 4, 700), (3, 4, 1700)])
def test_the_only_pod_that_can_have_a_claim_has_a_node_for_all_its_followers(api: int, web: int, cpu: int) -> None:
    beside = affinity(podAffinity=[near(HOST, "api")])
    batch = [
        *(mounting(f"api-{number}", "own", app="api", cpu="300m", memory="64Mi") for number in range(api)),
        *pods(web, "web", cpu=f"{cpu}m", memory="64Mi", **beside),
    ]
    lists = cluster(batch, persistentvolumeclaims=[claim("own", modes="ReadWriteOncePod")], storageclasses=[LATER])
    plan = checked(lists, catalogue={**SIZES, "m.2xlarge": instance_type("m.2xlarge", 8, 32, 0.17, pods=30)})

    assert len(plan.nodes) == 1
    assert waiting(plan) == [f"api-{number}" for number in range(1, api)]


def test_a_hundred_followers_share_the_node_of_the_only_pod_of_their_kind() -> None:
    larger = {**SIZES, "m.8xlarge": instance_type("m.8xlarge", 32, 64, 0.7, pods=200)}
    three_zones = {"topologySpreadConstraints": [spread(app="api", minDomains=2)]}
    beside = affinity(podAffinity=[near(HOST, "api")])
    batch = [*pods(3, "api", **three_zones), *pods(100, "web", cpu="100m", memory="64Mi", **beside)]
    plan = checked(cluster(batch, ONE_ZONE), catalogue=larger)

    assert waiting(plan) == ["api-1", "api-2"]
    assert [one.instance_type for one in plan.nodes] == ["m.8xlarge"]


def test_pods_that_must_share_a_host_do_not_take_a_node_that_is_too_small_for_both() -> None:
    batch = [
        *pods(2, "job", cpu="1800m", memory="64Mi", **affinity(podAffinity=[near(HOST, "job")])),
        *pods(1, "db", cpu="2500m", memory="64Mi"),
        *pods(5, "web", cpu="2060m", memory="64Mi", **affinity(podAffinity=[near(HOST, "web")])),
    ]
    plan = checked(cluster(batch), catalogue=SIZES)

    assert waiting(plan) == ["web-1", "web-2", "web-3", "web-4"]
    assert sorted(sorted(one.removeprefix("default/") for one in node.pods) for node in plan.nodes) == [
        ["db-0"],
        ["job-0", "job-1"],
        ["web-0"],
    ]


def test_an_existing_node_is_left_to_the_pods_that_fit_nowhere_else() -> None:
    """The limit allows no new node that could hold an ``api`` pod, which must be beside ``db``. Only ``large`` can hold
    both, and ``web`` can be on either node."""
    there = [node("large", cpu=4, gib=4), node("small", cpu=2, gib=4)]
    batch = [
        *pods(1, "web", cpu="900m", memory="64Mi", priority=10),
        *pods(4, "api", cpu="2500m", memory="64Mi", **affinity(podAffinity=[near(HOST, "db")])),
        *pods(1, "db", cpu="900m", memory="64Mi"),
    ]
    plan = checked(cluster(batch, node_pool(limits={"cpu": "3"}), nodes=there), catalogue=SIZES)

    assert waiting(plan) == ["api-1", "api-2", "api-3"]
    assert {one.node: sorted(one.pods) for one in plan.existing} == {
        "large": ["default/api-0", "default/db-0"],
        "small": ["default/web-0"],
    }


def test_nodes_that_a_limit_allows_are_large_enough_for_all_pods() -> None:
    """The ``huge`` pods are larger than every type; one ``web`` pod fits on the existing node."""
    batch = [*pods(3, "huge", cpu="9", memory="1Gi"), *pods(4, "web", cpu="500m", memory="64Mi")]
    there = [node("small", zone=ZONES[1], cpu=1, gib=4)]
    old = running("old", "small", app="huge", cpu="100m", memory="64Mi")
    plan = checked(cluster([old, *batch], node_pool(limits={"nodes": "2"}), nodes=there), catalogue=SIZES)

    assert waiting(plan) == ["huge-0", "huge-1", "huge-2"]


def test_each_of_many_leaders_has_a_node_for_its_followers() -> None:
    """Of each ``api``, two of three pods are hopeless. A node holds seven pods: the pods of one app and of another do
    not fit together."""
    batch = [
        one
        for number in range(10)
        for one in (
            *pods(3, f"api{number}", topologySpreadConstraints=[spread(app=f"api{number}", minDomains=2)]),
            *pods(3, f"web{number}", **affinity(podAffinity=[near(HOST, f"api{number}")])),
        )
    ]
    plan = checked(cluster(batch, ONE_ZONE), catalogue=SIZES)

    assert waiting(plan) == sorted(f"api{number}-{copy}" for number in range(10) for copy in (1, 2))


def test_the_nodes_that_a_limit_allows_are_large_enough_beside_many_hopeless_pods() -> None:
    batch = [
        *pods(20, "web", cpu="300m", memory="64Mi"),
        *pods(10, "huge", cpu="30"),
        *pods(10, "alone", cpu="3", **affinity(podAffinity=[near(HOST, "nothing")])),
    ]
    plan = checked(cluster(batch, node_pool(limits={"nodes": "2"})), catalogue=SIZES)

    assert not [name for name in waiting(plan) if name.startswith("web")]
    assert len(plan.pending) == 20
