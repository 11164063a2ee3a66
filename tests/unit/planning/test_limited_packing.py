"""Limits that do not admit all pods: highest priority first, then as many pods as possible, in plans of any size."""

import pytest

from joiner.planning import Ceilings
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import Json, instance_type, node_pool, pods, spread

TYPES = {
    f"x.{cpu}": instance_type(f"x.{cpu}", cpu, 2 * cpu, 0.04 * cpu * (1 + 0.001 * cpu), pods=200)
    for cpu in (2, 4, 8, 16, 32, 48, 96)
}
LIMITED = node_pool(limits={"cpu": "200"})


def plain(number: int, name: str = "web", **fields: object) -> list[Json]:
    return list(pods(number, name, **{"cpu": "700m", "memory": "1Gi", **fields}))


def placed(lists: Json, name: str = "", **more: object) -> int:
    return sum(name in pod for node in checked(lists, catalogue=TYPES, **more).nodes for pod in node.pods)


def test_cpu_that_is_limited_is_not_wasted_on_nodes_that_are_cheap() -> None:
    """Two nodes of 96 CPUs hold 137 pods each, one node of 8 holds 11."""
    assert placed(cluster(plain(500), LIMITED)) == 285


def test_pods_that_are_spread_over_zones_make_as_much_of_a_limit() -> None:
    assert placed(cluster(plain(1000, topologySpreadConstraints=[spread()]), LIMITED)) >= 270


@pytest.mark.parametrize("many", [800, 3500])
def test_the_important_come_first_however_many_wait(many: int) -> None:
    important = plain(100, "hi", cpu="1500m", priority=1000)

    assert placed(cluster([*plain(many), *important], LIMITED), "hi") == 100


def test_of_pods_alike_in_importance_the_small_ones_come_in() -> None:
    """As many pods as fit: a hundred CPUs hold 490 pods of 200m."""
    both = [*plain(300), *plain(600, "small", cpu="200m", memory="256Mi")]

    assert placed(cluster(both, node_pool(limits={"cpu": "100"})), "small") >= 480


@pytest.mark.parametrize("ceilings", [Ceilings(nodes=3), Ceilings(price_per_hour=2.0)])
def test_ceilings_of_the_cluster_are_kept_and_used(ceilings: Ceilings) -> None:
    lists = cluster([*plain(3500), *plain(50, "hi", cpu="1500m", priority=1000)])

    assert placed(lists, "hi", ceilings=ceilings) == 50


def test_the_type_that_comes_nearest_to_a_limit_of_zero_is_the_smallest() -> None:
    plan = checked(cluster(plain(1), node_pool(limits={"cpu": "0"})), catalogue=TYPES)

    (reason,) = plan.pending[0].reasons
    assert reason.nearest is not None
    assert reason.nearest.instance_type == "x.2"
    assert "limit cpu 0 of NodePool/default: 0 used, the pod needs 700m (the node that comes nearest has 2)" in str(
        reason
    )


def test_the_nearest_type_is_the_one_that_exceeds_the_limit_least_and_not_the_cheapest() -> None:
    """The large type is cheaper here, and needs three times as much of the limit."""
    costly = {"x.4": instance_type("x.4", 4, 8, 0.9), "x.12": instance_type("x.12", 12, 24, 0.1)}
    plan = checked(cluster(plain(1, cpu="3"), node_pool(limits={"cpu": "2"})), catalogue=costly)

    (reason,) = plan.pending[0].reasons
    assert reason.nearest is not None
    assert reason.nearest.instance_type == "x.4"
    assert "(the node that comes nearest has 4)" in str(reason)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cpus", "; did you mean cpu?"),
        ("Memory", "; did you mean memory?"),
        ("example.com/gpu", "; there are cpu, ephemeral-storage, memory, nodes, pods and devices"),
    ],
)
def test_a_limit_on_an_unknown_resource_is_reported_and_limits_nothing(name: str, meant: str) -> None:
    plan = checked(cluster(plain(3), node_pool(limits={name: "1"})), catalogue=TYPES)

    assert not plan.pending
    assert [(str(one), one.severity) for one in plan.problems if "limits" in one.field] == [
        (
            f"NodePool/default: spec.limits.{name} is 1: it limits nothing, because no instance type of the catalogue "
            f"has this resource{meant}",
            "warning",
        )
    ]


def test_limits_on_resources_of_every_node_and_of_overlays_are_known() -> None:
    limits = {"cpu": "9", "memory": "99Gi", "pods": "99", "ephemeral-storage": "999Gi", "nodes": "9", "x.io/fpga": "9"}
    overlay = {"metadata": {"name": "fpga"}, "spec": {"requirements": [], "capacity": {"x.io/fpga": "1"}}}

    plan = checked(cluster(plain(3), node_pool(limits=limits), nodeoverlays=[overlay]), catalogue=TYPES)

    assert [one for one in plan.problems if "limits" in one.field] == []
