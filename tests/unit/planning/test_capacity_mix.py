"""A pool keeps a share of on-demand nodes, over its running and its new nodes."""

from collections import Counter
from typing import Any

import pytest

from joiner.planning import Plan
from tests.unit.planning.blocked_drains import draining_node, on_draining_node
from tests.unit.planning.checked_plans import checked, cluster, drawn
from tests.unit.planning.drawn_clusters import ZONES, Json, node, node_pool, pod, pods

ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}
SPOT = {"karpenter.sh/capacity-type": "spot"}


def mixed(value: str, **spec: Any) -> Json:
    """Return a pool with this mix. Two pods of 1500m CPU do not fit on one node of a large type."""
    made = node_pool(**spec)
    return {**made, "metadata": {**made["metadata"], "annotations": {"joiner.dev/capacity-mix": value}}}


def capacity_types(plan: Plan) -> dict[str, int]:
    return dict(Counter(one.capacity_type for one in plan.nodes))


def running(number: int, capacity_type: str) -> list[Json]:
    labels = {"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": capacity_type}
    return [node(f"{capacity_type}-{at}", labels=labels, cpu=1) for at in range(number)]


LARGE: dict[str, Any] = {
    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g.large"]}]
}


@pytest.mark.parametrize(("value", "spot"), [("spot=70%", 7), ("spot=0%", 0), ("spot=100%", 10), ("spot=25%", 3)])
def test_new_nodes_are_on_demand_as_far_as_the_share_requires(value: str, spot: int) -> None:
    plan = checked(cluster(pods(10, cpu="1500m"), mixed(value, **LARGE)))

    assert len(plan.pending) == 0
    assert capacity_types(plan) == {
        name: number for name, number in (("spot", spot), ("on-demand", 10 - spot)) if number
    }
    assert plan.lower_bound_per_hour <= plan.price_per_hour


def test_running_nodes_count() -> None:
    there = running(6, "spot")
    plan = checked(cluster(pods(4, cpu="1500m"), mixed("spot=70%", **LARGE), nodes=there))

    assert capacity_types(plan) == {"on-demand": 3, "spot": 1}


def test_a_node_that_is_drained_does_not_count() -> None:
    leaving, claim = draining_node(labels={"karpenter.sh/nodepool": "default", **ON_DEMAND})
    there = on_draining_node(pod("web-0", cpu="1500m"))
    lists = cluster([there, pod("web-1", cpu="1500m")], mixed("spot=50%", **LARGE), nodes=[leaving], nodeclaims=[claim])

    assert capacity_types(checked(lists)) == {"on-demand": 1, "spot": 1}


def test_pods_that_require_spot_stay_on_spot_and_the_plan_reports_it() -> None:
    plan = checked(cluster(pods(2, cpu="1500m", nodeSelector=SPOT), mixed("spot=0%", **LARGE)))

    assert capacity_types(plan) == {"spot": 2}
    assert plan.warnings == (
        "NodePool/default has 2 of 2 nodes on spot with this plan (joiner.dev/capacity-mix spot=0%): its pods, or its "
        "offerings, allow no more on-demand nodes",
    )


def test_the_plan_names_the_share_and_its_price() -> None:
    plan = checked(cluster(pods(2, cpu="1500m"), mixed("spot=50%", **LARGE)))

    assert [line.split()[2] for line in drawn(plan)] == ["spot:", "on-demand:"]
    (note,) = plan.warnings
    assert note.startswith(
        "NodePool/default has 1 of 2 nodes on spot with this plan (joiner.dev/capacity-mix spot=50%), which costs $0."
    )


def test_a_pool_without_a_mix_is_planned_on_spot_alone() -> None:
    plan = checked(cluster(pods(4, cpu="1500m"), node_pool(**LARGE)))

    assert capacity_types(plan) == {"spot": 4}
    assert plan.warnings == ()


def test_without_spot_capacity_all_nodes_are_on_demand_and_later_ones_on_spot_restore_the_share() -> None:
    short = checked(
        cluster(pods(10, cpu="1500m"), mixed("spot=70%", **LARGE)), unavailable=[("spot", "*", zone) for zone in ZONES]
    )
    restored = checked(
        cluster(pods(10, "api", cpu="1500m"), mixed("spot=70%", **LARGE), nodes=running(10, "on-demand"))
    )

    assert capacity_types(short) == {"on-demand": 10}
    assert short.pending == ()
    assert capacity_types(restored) == {"spot": 10}  # 10 of 20; up to 14 would be allowed


def test_without_on_demand_capacity_pods_run_on_spot_and_the_plan_reports_it() -> None:
    plan = checked(
        cluster(pods(4, cpu="1500m"), mixed("spot=50%", **LARGE)),
        unavailable=[("on-demand", "*", zone) for zone in ZONES],
    )

    assert capacity_types(plan) == {"spot": 4}
    assert plan.pending == ()
    assert plan.warnings == (
        "NodePool/default has 4 of 4 nodes on spot with this plan (joiner.dev/capacity-mix spot=50%): its pods, or its "
        "offerings, allow no more on-demand nodes",
    )


def test_after_a_scale_down_that_left_spot_nodes_alone_new_nodes_are_on_demand() -> None:
    plan = checked(cluster(pods(3, cpu="1500m"), mixed("spot=70%", **LARGE), nodes=running(7, "spot")))
    few = checked(cluster(pods(1, cpu="1500m"), mixed("spot=70%", **LARGE), nodes=running(7, "spot")))

    assert capacity_types(plan) == {"on-demand": 3}
    assert capacity_types(few) == {"on-demand": 1}


def test_first_fit_on_spot_is_no_comparison_for_a_plan_that_keeps_the_mix() -> None:
    waiting = pods(10, cpu="1500m")
    free, mixed_plan = (checked(cluster(waiting, pool)) for pool in (node_pool(**LARGE), mixed("spot=50%", **LARGE)))

    assert free.greedy_price_per_hour is not None and free.greedy_price_per_hour >= free.price_per_hour - 1e-9
    assert mixed_plan.price_per_hour > free.price_per_hour
    assert mixed_plan.greedy_price_per_hour is None
    [warning] = mixed_plan.warnings
    assert "/h more and is no part of the lower bound" in warning
