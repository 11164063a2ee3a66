"""Labels that a pool leaves open in its requirements: each node has values for them, and the daemon sets that select
these run there."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    Json,
    daemon_set,
    node_pool,
    planned,
    pod,
)
from tests.unit.planning.open_labels import joined, labelled_clusters, requiring, rule

OF_B: dict[str, Any] = {"nodeSelector": {"team": "b"}}
OPEN = [rule("team", "In", "b"), rule("team", "In", "a", "b"), rule("team", "Exists"), rule("team", "NotIn", "c")]
SMALL, LARGE = ["g.large a spot: web-0"], ["m.xlarge a spot: web-0"]


def agent(*, cpu: str = "1", **spec: Any) -> Json:
    return daemon_set("agent", cpu=cpu, **spec)


def with_agent(of_pool: Json, daemon: Json, **pod_spec: Any) -> dict[str, Any]:
    waiting = pod("web-0", cpu="1500m", **pod_spec)
    return dict(cluster([waiting], node_pool(requirements=[of_pool]), daemonsets=[daemon]))


@pytest.mark.parametrize("of_pool", OPEN)
@pytest.mark.parametrize(
    "selecting", [OF_B, requiring(rule("team", "Exists")), requiring(rule("team", "NotIn", "a"))], ids=str
)
def test_a_daemon_set_that_selects_a_label_of_the_node_counts_there(of_pool: Json, selecting: dict[str, Any]) -> None:
    plan = checked(with_agent(of_pool, agent(**selecting), **OF_B))

    assert drawn(plan) == LARGE
    assert plan.nodes[0].daemon_overhead.to_kube()["cpu"] == "1"


@pytest.mark.parametrize("of_pool", OPEN)
def test_a_daemon_set_that_excludes_the_label_of_the_node_does_not_count_there(of_pool: Json) -> None:
    plan = checked(with_agent(of_pool, agent(**requiring(rule("team", "NotIn", "b"))), **OF_B))

    assert drawn(plan) == SMALL
    assert plan.nodes[0].daemon_overhead.to_kube() == {}


def test_a_node_gets_a_value_that_no_daemon_set_selects_if_no_pod_asks_for_one() -> None:
    either = with_agent(rule("team", "In", "a", "b"), agent(nodeSelector={"team": "a"}))
    only = with_agent(rule("team", "In", "a"), agent(nodeSelector={"team": "a"}))

    assert drawn(checked(either)) == SMALL
    assert drawn(checked(only)) == LARGE


@pytest.mark.parametrize("of_pool", OPEN)
def test_a_host_port_of_such_a_daemon_set_is_taken(of_pool: Json) -> None:
    busy = agent(cpu="100m", **OF_B)
    busy["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    asking, other = with_agent(of_pool, busy, ports=[80], **OF_B), with_agent(of_pool, busy, ports=[81], **OF_B)

    assert why(checked(asking)) == ["default: its host ports are taken by daemon sets on every new node"]
    assert drawn(checked(other)) == SMALL


@pytest.mark.parametrize("of_pool", OPEN)
def test_the_nodes_of_a_round_hold_their_pods_beside_the_daemons_that_came(of_pool: Json) -> None:
    lists = with_agent(of_pool, agent(**OF_B), **OF_B)
    later = checked(joined(planned(lists), lists))

    assert later.nodes == () and later.pending == ()
    assert [one.pods for one in later.existing] == [("default/web-0",)]


def test_a_daemon_set_without_room_on_its_nodes_leaves_those_of_other_values() -> None:
    pool, huge = node_pool(requirements=[rule("team", "In", "a", "b")]), agent(cpu="10", **OF_B)
    plan = checked(cluster([pod("web-0", **OF_B), pod("api-0")], pool, daemonsets=[huge]))

    assert drawn(plan) == ["g.large a spot: api-0"]
    ((reason,),) = [one.reasons for one in plan.pending]
    assert str(reason).startswith("default: the pod and the daemon sets do not fit together on any suitable instance")


def test_a_pool_of_which_the_daemon_sets_fill_every_node_says_so() -> None:
    plan = checked(with_agent(rule("team", "In", "b"), agent(cpu="10", **OF_B)))

    ((reason,),) = [one.reasons for one in plan.pending]
    assert str(reason).startswith("default: the pod and the daemon sets do not fit together on any suitable instance")


def test_the_nodes_of_a_static_pool_have_the_daemons_of_their_labels() -> None:
    only_b, either = (rule("team", "In", *values) for values in (["b"], ["a", "b"]))
    none, one, other = (
        checked(cluster([], node_pool(requirements=[of_pool], replicas=1), daemonsets=[agent(**selecting)]))
        for of_pool, selecting in ((only_b, {"nodeSelector": {"team": "a"}}), (only_b, OF_B), (either, OF_B))
    )

    overheads = [plan.nodes[0].daemon_overhead.to_kube().get("cpu", "0") for plan in (none, one, other)]
    assert overheads == ["0", "1", "0"]


def test_pods_fit_on_the_missing_node_of_a_static_pool_beside_its_daemons() -> None:
    large = [rule("team", "In", "b"), rule("node.kubernetes.io/instance-type", "In", "m.xlarge")]
    pools = [node_pool("fixed", requirements=large, replicas=1), node_pool()]
    waiting = [pod(f"web-{number}", cpu="1500m") for number in range(2)]
    plan = checked(cluster(waiting, *pools, daemonsets=[agent(**OF_B)]))

    assert sorted((one.instance_type, len(one.pods)) for one in plan.nodes) == [("g.large", 1), ("m.xlarge", 1)]


def test_pods_of_two_values_are_on_nodes_with_the_daemons_of_each() -> None:
    pool = node_pool(requirements=[rule("team", "Exists")])
    waiting = [pod(f"{team}-0", cpu="1500m", nodeSelector={"team": team}) for team in ("a", "b")]
    plan = checked(cluster(waiting, pool, daemonsets=[agent(**OF_B)]))

    assert sorted(drawn(plan)) == ["g.large a spot: a-0", "m.xlarge a spot: b-0"]


def test_daemons_of_open_labels_count_beside_minimum_values_and_limits() -> None:
    types = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}
    pool = node_pool(requirements=[rule("team", "In", "b"), types], limits={"cpu": "4"})
    plan = checked(cluster([pod("web-0", cpu="900m")], pool, daemonsets=[agent(cpu="900m", **OF_B)]))

    assert {one.instance_type for one in plan.nodes[0].alternatives} >= {"s.large", "g.large"}


@examples(60, repeated=40)
@given(labelled_clusters())
def test_no_node_is_too_small_for_the_daemons_that_its_labels_bring(lists: dict[str, list[Json]]) -> None:
    plan = planned(lists)

    assert check_plan(lists, CATALOGUE, plan.to_json()) == []
    for node in plan.nodes:
        mine = [one for one in lists["pods"] if f"default/{one['metadata']['name']}" in node.pods]
        later = planned(joined(replace(plan, nodes=(node,)), {**lists, "pods": mine}))
        assert (later.nodes, later.pending) == ((), ())
