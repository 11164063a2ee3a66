"""What pods request in plans, and which pods are planned. The independent checker verifies every plan."""

from typing import Any

import pytest

from tests.unit.planning.checked_plans import checked, cluster, drawn
from tests.unit.planning.drawn_clusters import (
    TAINT,
    node,
    node_pool,
    pod,
    running,
)

ARCH = "kubernetes.io/arch"


def test_a_runtime_class_adds_overhead_and_chooses_nodes() -> None:
    kata = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "500m", "memory": "128Mi"}},
        "scheduling": {"nodeSelector": {ARCH: "amd64"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    }
    lists = cluster(
        [pod("web-0", cpu="1500m", runtimeClassName="kata")], node_pool(taints=[TAINT]), runtimeclasses=[kata]
    )

    assert drawn(checked(lists)) == ["m.xlarge a spot: web-0"]


def test_what_init_containers_and_sidecars_need_must_fit() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "600m"}}}
    heavy = {"name": "prepare", "resources": {"requests": {"cpu": "1500m"}}}
    waiting = pod("web-0", cpu="1", initContainers=[sidecar, heavy])

    assert drawn(checked(cluster([waiting]))) == ["m.xlarge a spot: web-0"]


def test_requests_of_the_pod_as_a_whole_take_the_place_of_its_containers() -> None:
    waiting = pod("web-0", cpu="100m", resources={"requests": {"cpu": "3"}})

    assert drawn(checked(cluster([waiting]))) == ["m.xlarge a spot: web-0"]


def test_a_pod_that_grows_in_place_holds_what_it_has_been_given() -> None:
    growing = running("old", "there", cpu="1")
    growing["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}
    ]

    assert checked(cluster([pod("web-0", cpu="1500m"), growing], nodes=[node("there")])).existing == ()


def test_a_pod_that_shrinks_as_a_whole_holds_what_it_has_been_given() -> None:
    shrinking = running("old", "there", cpu="1", resources={"requests": {"cpu": "1"}})
    shrinking["status"] |= {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}

    assert checked(cluster([pod("web-0", cpu="1500m"), shrinking], nodes=[node("there")])).existing == ()


@pytest.mark.parametrize(
    ("change", "why_not"),
    [
        ({"spec": {"schedulingGates": [{"name": "wait"}]}}, "gated"),
        ({"status": {"nominatedNodeName": "there"}}, "will preempt"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is ending"),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "x", "controller": True}]}}, "is a daemon's"),
        ({"status": {"conditions": []}}, "its scheduler has not tried it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_node_is_made_for_a_pod_that_one_would_not_help(change: dict[str, dict[str, Any]], why_not: str) -> None:
    waiting = pod("web-0")
    for part, more in change.items():
        waiting[part] = {**waiting[part], **more}
    plan = checked(cluster([waiting]))

    assert (plan.nodes, plan.pending) == ((), ()), why_not


def test_another_schedulers_pod_is_planned_for_once_that_has_found_no_node() -> None:
    assert len(checked(cluster([pod("web-0", schedulerName="volcano")])).nodes) == 1


def test_a_pod_that_preempts_others_keeps_its_resources() -> None:
    preempting = pod("high", cpu="3", priority=100)
    preempting["status"] = {**preempting["status"], "nominatedNodeName": "there"}

    assert drawn(checked(cluster([pod("web-0", cpu="1500m"), preempting], nodes=[node("there")]))) == [
        "g.large a spot: web-0"
    ]


def test_ports_are_taken_for_an_address_or_for_all() -> None:
    def at(name: str, ip: str, protocol: str = "TCP") -> dict[str, Any]:
        one = pod(name, cpu="100m")
        one["spec"]["containers"][0]["ports"] = [
            {"containerPort": 53, "hostPort": 53, "hostIP": ip, "protocol": protocol}
        ]
        return one

    assert len(checked(cluster([at("a", "10.0.0.1"), at("b", "10.0.0.2")])).nodes) == 1
    assert len(checked(cluster([at("a", "10.0.0.1"), at("b", "")])).nodes) == 2
    assert len(checked(cluster([at("a", "", "TCP"), at("b", "", "UDP")])).nodes) == 1
