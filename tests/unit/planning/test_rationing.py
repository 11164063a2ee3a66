"""Limits that do not admit all pods: highest priority first, then as many pods as possible, in plans of any size."""

import pytest

from joiner.planning import Ceilings
from tests.unit.planning.checked import checked, world
from tests.unit.planning.worlds import Json, instance_type, node_pool, pods, spread

TYPES = {
    f"x.{cpu}": instance_type(f"x.{cpu}", cpu, 2 * cpu, 0.04 * cpu * (1 + 0.001 * cpu), pods=200)
    for cpu in (2, 4, 8, 16, 32, 48, 96)
}
LIMITED = node_pool(limits={"cpu": "200"})


def plain(number: int, name: str = "web", **said: object) -> list[Json]:
    return list(pods(number, name, **{"cpu": "700m", "memory": "1Gi", **said}))


def placed(lists: Json, name: str = "", **more: object) -> int:
    return sum(name in pod for node in checked(lists, catalogue=TYPES, **more).nodes for pod in node.pods)


def test_cpu_that_is_limited_is_not_wasted_on_nodes_that_are_cheap() -> None:
    """Two nodes of 96 CPUs hold 137 pods each, one node of 8 holds 11."""
    assert placed(world(plain(500), LIMITED)) == 285


def test_pods_that_are_spread_over_zones_make_as_much_of_a_limit() -> None:
    assert placed(world(plain(1000, topologySpreadConstraints=[spread()]), LIMITED)) >= 270


@pytest.mark.parametrize("many", [800, 3500])
def test_the_important_come_first_however_many_wait(many: int) -> None:
    important = plain(100, "hi", cpu="1500m", priority=1000)

    assert placed(world([*plain(many), *important], LIMITED), "hi") == 100


def test_of_pods_alike_in_importance_the_small_ones_come_in() -> None:
    """As many pods as fit: a hundred CPUs hold 490 pods of 200m."""
    both = [*plain(300), *plain(600, "small", cpu="200m", memory="256Mi")]

    assert placed(world(both, node_pool(limits={"cpu": "100"})), "small") >= 480


@pytest.mark.parametrize("ceilings", [Ceilings(nodes=3), Ceilings(price_per_hour=2.0)])
def test_ceilings_of_the_cluster_are_kept_and_used(ceilings: Ceilings) -> None:
    lists = world([*plain(3500), *plain(50, "hi", cpu="1500m", priority=1000)])

    assert placed(lists, "hi", ceilings=ceilings) == 50
