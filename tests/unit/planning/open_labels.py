"""Random clusters whose pools leave labels open: the requirements of pools, daemon sets and pods about them."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from joiner.planning import Plan
from tests.plan_checker.amounts import Spot, amounts
from tests.plan_checker.node_rules import HOST, daemons_to_come
from tests.unit.planning.drawn_clusters import Json, daemon_set, node_pool, pods

KEYS = ("team", "rank")


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)} if values else {"key": key, "operator": operator}


def requiring(*rules: Json) -> dict[str, Any]:
    """Return a required node affinity with one term of these rules."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(rules)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


OF_POOLS = {
    "team": [rule("team", "In", "b"), rule("team", "In", "a", "b"), rule("team", "Exists"), rule("team", "NotIn", "c")],
    "rank": [rule("rank", "Gt", "5"), rule("rank", "In", "3", "20"), rule("rank", "Exists")],
}
OF_PODS = {
    "team": [rule("team", "In", "b"), rule("team", "In", "a", "c"), rule("team", "NotIn", "b"), rule("team", "Exists")],
    "rank": [
        rule("rank", "In", "20"),
        rule("rank", "Exists"),
        rule("rank", "NotIn", "6"),
        rule("rank", "Gt", "19"),
        rule("rank", "Lt", "5"),
    ],
}


@st.composite
def node_rules(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the node affinity of a pod or a daemon set about open labels."""
    found = [draw(st.sampled_from(OF_PODS[key])) for key in KEYS if draw(st.booleans())]
    return requiring(*found) if found else {}


@st.composite
def labelled_clusters(draw: st.DrawFn) -> dict[str, list[Json]]:
    """Draw a cluster of one or two pools, some daemon sets and a few workloads."""
    pools = []
    for name in ("default", "other")[: draw(st.integers(1, 2))]:
        asked = [draw(st.sampled_from(OF_POOLS[key])) for key in KEYS if draw(st.booleans())]
        pools.append(node_pool(name, requirements=asked))
    daemons = [
        daemon_set(f"agent-{number}", cpu=draw(st.sampled_from(["100m", "1"])), **draw(node_rules()))
        for number in range(draw(st.integers(1, 2)))
    ]
    waiting: list[Json] = [
        one
        for app in ("web", "api", "db")[: draw(st.integers(1, 3))]
        for one in pods(
            draw(st.integers(1, 3)), app, cpu=draw(st.sampled_from(["400m", "1500m"])), **draw(node_rules())
        )
    ]
    return {"pods": waiting, "nodes": [], "nodepools": pools, "daemonsets": daemons}


def joined(plan: Plan, lists: Mapping[str, Sequence[Json]]) -> dict[str, Sequence[Json]]:
    """Return the cluster in which the planned nodes have joined and the controller has made the pods of its daemon
    sets; the planned pods still wait."""
    nodes, daemons = list[Json](), list[Json]()
    for one in plan.nodes:
        labels = {**one.labels, HOST: one.name}
        taints: list[Json] = [taint.to_kube() for taint in one.taints]
        amount = {"capacity": one.capacity.to_kube(), "allocatable": one.allocatable.to_kube()}
        nodes.append(
            {
                "metadata": {"name": one.name, "labels": labels},
                "spec": {"taints": taints, "providerID": f"aws:///{one.zone}/i-{one.name}"},
                "status": {**amount, "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
        spot = Spot(one.name, labels, taints, amounts(one.allocatable.to_kube()))
        for daemon in daemons_to_come(spot, lists):
            name = daemon["metadata"]["name"]
            owner = {"kind": "DaemonSet", "name": name, "uid": f"uid-{name}", "controller": True}
            metadata = {"name": f"{name}-{one.name}", "namespace": "kube-system", "ownerReferences": [owner]}
            spec = {**daemon["spec"], "nodeName": one.name}
            daemons.append({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    return {**lists, "nodes": [*lists.get("nodes", ()), *nodes], "pods": [*lists["pods"], *daemons]}
