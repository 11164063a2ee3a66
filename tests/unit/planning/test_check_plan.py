"""The checker finds mistakes: correct plans with one change each, and the message of the checker."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.plan_checker import check_plan
from tests.plan_checker.amounts import asks
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    TAINT,
    ZONE,
    ZONES,
    affinity,
    daemon_set,
    near,
    node,
    node_pool,
    planned,
    pods,
    running,
    spread,
)

CLUSTER: dict[str, Any] = {
    "pods": [
        *pods(3, topologySpreadConstraints=[spread()]),
        *pods(2, "db", **affinity(podAntiAffinity=[near(HOST, "db")])),
        *pods(2, "api", ports=[80], nodeSelector={"kubernetes.io/arch": "amd64"}),
        *pods(1, "near", **affinity(podAffinity=[near(ZONE, "old")])),
        running("old", "there", app="old"),
    ],
    "nodes": [node("there", zone=ZONES[1], cpu=1)],
    "nodepools": [node_pool(limits={"cpu": "30"})],
    "daemonsets": [daemon_set("agent")],
}


def node_of(plan: dict[str, Any], pod: str) -> dict[str, Any]:
    return next(dict_ for dict_ in (*plan["nodes"], *plan["existing"]) if f"default/{pod}" in dict_["pods"])


def move(plan: dict[str, Any], pod: str, to: dict[str, Any]) -> None:
    node_of(plan, pod)["pods"].remove(f"default/{pod}")
    to["pods"].append(f"default/{pod}")


def forget(plan: dict[str, Any]) -> None:
    node_of(plan, "web-0")["pods"].remove("default/web-0")


def twice(plan: dict[str, Any]) -> None:
    plan["pending"].append({"pod": "default/web-0", "reasons": []})


def crowd(plan: dict[str, Any]) -> None:
    there = {"node": "there", "claim": "", "pods": [], "classes": {}}
    plan["existing"].append(there)
    move(plan, "api-0", there)
    move(plan, "api-1", there)


def unspread(plan: dict[str, Any]) -> None:
    target = node_of(plan, "web-0")
    for pod in ("web-1", "web-2"):
        if f"default/{pod}" not in target["pods"]:
            move(plan, pod, target)


def together(plan: dict[str, Any]) -> None:
    move(plan, "db-0", node_of(plan, "db-1"))


def far(plan: dict[str, Any]) -> None:
    elsewhere = next(one for one in plan["nodes"] if one["zone"] != ZONES[1])
    move(plan, "near-0", elsewhere)


def wrong_arch(plan: dict[str, Any]) -> None:
    for one in plan["nodes"]:
        one["labels"]["kubernetes.io/arch"] = "s390x"


def tainted(plan: dict[str, Any]) -> None:
    for one in plan["nodes"]:
        one["taints"] = [TAINT]


def bargain(plan: dict[str, Any]) -> None:
    plan["nodes"][0]["pricePerHour"] = 0.001


def wasteful(plan: dict[str, Any]) -> None:
    for number in range(40):
        plan["nodes"].append({**deepcopy(plan["nodes"][0]), "name": f"more-{number}", "pods": []})


def without_daemons(plan: dict[str, Any]) -> None:
    plan["nodes"][0]["daemonOverhead"] = {}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (forget, "is nowhere in the plan"),
        (twice, "is in the plan 2 times"),
        (crowd, "cpu is asked for"),
        (crowd, "port 80/TCP is wanted twice"),
        (unspread, "the emptiest"),
        (together, "which wants it away"),
        (far, "no pod that its affinity selects"),
        (wrong_arch, "its node rules do not allow"),
        (tainted, "does not tolerate a taint"),
        (bargain, "is not offered so"),
        (wasteful, "is over its limit"),
        (without_daemons, "its overhead says otherwise"),
    ],
)
def test_a_plan_that_is_wrong_in_one_place_is_refused(spoil: Callable[[dict[str, Any]], None], message: str) -> None:
    plan = planned(CLUSTER).to_json()
    assert check_plan(CLUSTER, CATALOGUE, plan) == []
    spoil(plan)

    assert any(message in one for one in check_plan(CLUSTER, CATALOGUE, plan))


def test_it_counts_requests_in_its_own_way() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"resources": {"limits": {"cpu": "2"}}},
        ],
    }

    assert asks({"spec": spec})["cpu"] * 10 == 25
