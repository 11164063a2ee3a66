"""Nodes that a scale-up launched and that no check of their wave has read, and what tests read of them."""

from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.names import FILLING, NODEPOOL
from joiner.pools import NodeClaim
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


def launched(cluster: SimulatedCluster, *others: dict[str, Any]) -> SimulatedCluster:
    """Return a cluster with one pod, and others, whose nodes were launched and have not booted; no check has run."""
    cluster.prepare(pending("web-1"), *others)
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    return cluster


def the_claim(cluster: SimulatedCluster) -> NodeClaim:
    (claim,) = list_claims(cluster.kube).claims
    return claim


def the_node(cluster: SimulatedCluster) -> dict[str, Any]:
    (node,) = cluster.kube.all(kinds.NODES)
    return node


def taints(node: dict[str, Any]) -> list[str]:
    return [taint["key"] for taint in node["spec"]["taints"]]


def node_of(cluster: SimulatedCluster, pod: str) -> str:
    return str(cluster.kube.get(kinds.PODS, pod, namespace="default")["spec"].get("nodeName", ""))


def closed_node(name: str, created: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {NODEPOOL: "default"}, "creationTimestamp": created},
        "spec": {"providerID": f"aws:///us-east-1a/{name}", "taints": [{"key": FILLING, "effect": "NoSchedule"}]},
    }
