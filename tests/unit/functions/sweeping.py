"""A cluster at rest, and the two surveys of a sweep over it."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.pools import NodeClaim
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending

WHEN_EMPTY = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}


def stand(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster of three nodes with a pod each, an hour after they joined; empty ones are retired after 30 s."""
    cluster.prepare(pending("web-1"), pending("web-2"), pending("web-3"))
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    cluster.scale_up("up-1")
    cluster.now += timedelta(hours=1)
    return cluster


def claims(cluster: SimulatedCluster) -> list[NodeClaim]:
    return list(list_claims(cluster.kube).claims)


def memory(cluster: SimulatedCluster, kind: Any) -> Any:
    return kind(cluster.ledger._client, cluster.ledger._table)


def end_pods(cluster: SimulatedCluster, claim: NodeClaim) -> None:
    for pod in cluster.kube.all(kinds.PODS):
        if pod["spec"].get("nodeName") == claim.node_name:
            del cluster.kube.objects["pods", "default", pod["metadata"]["name"]]


def node_of(cluster: SimulatedCluster, pod: str) -> str:
    return str(cluster.kube.objects["pods", "default", pod]["spec"]["nodeName"])


def retired(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["claim"], each["reason"]) for each in answer["retire"]]


def looked(cluster: SimulatedCluster, number: int, *, after: int = 60) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the surveys of one sweep, some seconds after the last."""
    cluster.now += timedelta(seconds=after)
    return cluster.survey(f"s{number}")


def without_claim(cluster: SimulatedCluster, claim: NodeClaim) -> None:
    """Remove the claim and its finalizer, as a person does."""
    del cluster.kube.objects["nodeclaims", "", claim.name]


def without_node(cluster: SimulatedCluster, claim: NodeClaim) -> None:
    del cluster.kube.objects["nodes", "", claim.node_name]


def launch_of(cluster: SimulatedCluster, instance: str) -> str:
    return cluster.ledger.pairings([instance])[instance].launch
