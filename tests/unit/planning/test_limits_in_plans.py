"""Limits of pools and ceilings of the cluster hold in every plan; pods that they leave pending name them."""

import pytest

from joiner.planning import Ceilings
from tests.unit.planning.checked_plans import checked, cluster, why
from tests.unit.planning.drawn_clusters import (
    HOST,
    affinity,
    near,
    node,
    node_pool,
    pod,
    pods,
    running,
)
from tests.unit.planning.test_planner import ON_DEMAND


def test_a_full_heavier_pool_leaves_pods_to_the_next() -> None:
    spot = node_pool("spot")
    steady = node_pool("steady", requirements=[ON_DEMAND], weight=50, limits={"nodes": "1"})
    plan = checked(cluster(pods(2, cpu="1", **affinity(podAntiAffinity=[near(HOST, "web")])), spot, steady))

    assert sorted(one.pool for one in plan.nodes) == ["NodePool/spot", "NodePool/steady"]


def test_limits_count_what_is_there_and_are_exact() -> None:
    there = node("there", cpu=4, labels={"karpenter.sh/nodepool": "default"})
    waiting = [running("old", "there", cpu="4"), *pods(3, cpu="1900m", nodeSelector={"kubernetes.io/arch": "amd64"})]
    plan = checked(cluster(waiting, node_pool(limits={"cpu": "8"}), nodes=[there]))

    assert [one.instance_type for one in plan.nodes] in (["s.large", "s.large"], ["m.xlarge"])
    assert why(plan) == [
        "default: all available instance types exceed limits for nodepool: limit cpu 8 of NodePool/default: 8 "
        "used (4 of it by this plan), "
        "the pod needs 1900m (the node that comes nearest has 2); raise spec.limits.cpu or free nodes"
    ]


def test_a_limit_in_nodes_is_reported_in_nodes() -> None:
    plan = checked(cluster(pods(2, **affinity(podAntiAffinity=[near(HOST, "web")])), node_pool(limits={"nodes": "1"})))

    assert why(plan) == [
        "default: all available instance types exceed limits for nodepool: limit nodes 1 of NodePool/default: 1 "
        "used (1 of it by this "
        "plan), one more is needed; raise spec.limits.nodes or free nodes"
    ]


@pytest.mark.parametrize(("limit", "nodes"), [("1.5", 1), ("900m", 0), ("2", 2), ("2999m", 2)])
def test_a_limit_between_two_numbers_of_nodes_allows_the_lower_one(limit: str, nodes: int) -> None:
    apart = affinity(podAntiAffinity=[near(HOST, "web")])
    plan = checked(cluster(pods(3, **apart), node_pool(limits={"nodes": limit})))

    assert (len(plan.nodes), len(plan.pending)) == (nodes, 3 - nodes)


def test_the_more_important_pod_gets_the_last_of_a_limit() -> None:
    waiting = [pod("low", cpu="1500m"), pod("high", cpu="1500m", priority=1000)]
    plan = checked(cluster(waiting, node_pool(limits={"cpu": "2"})))

    assert [one.pods for one in plan.nodes] == [("default/high",)]
    assert [one.pod for one in plan.pending] == ["default/low"]


@pytest.mark.parametrize(
    ("ceilings", "reason"),
    [
        (
            Ceilings(nodes=1),
            "the cluster's ceiling of 1 nodes: 1 are there or planned; raise ceilings.nodes in clusters/NAME.yaml",
        ),
        (
            Ceilings(price_per_hour=0.04),
            "the cluster's ceiling of 0.04 $/h: 0.0245 $/h are there or planned, one more node costs 0.0245",
        ),
    ],
)
def test_no_plan_exceeds_the_clusters_ceilings(ceilings: Ceilings, reason: str) -> None:
    plan = checked(cluster(pods(2, **affinity(podAntiAffinity=[near(HOST, "web")]))), ceilings=ceilings)

    assert len(plan.nodes) == 1
    assert why(plan)[0].startswith(f"default: all available instance types exceed limits for nodepool: {reason}")
