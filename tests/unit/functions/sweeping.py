"""A cluster at rest, and the two surveys of a sweep over it."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.pools import NodeClaim
from tests.unit.functions.scale_up import SimulatedCluster, pending

WHEN_EMPTY = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}


def stand(world: SimulatedCluster) -> SimulatedCluster:
    """Return a world with three nodes with a pod each, an hour after they joined; empty ones are retired after 30 s."""
    world.prepare(pending("web-1"), pending("web-2"), pending("web-3"))
    world.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    world.scale_up("up-1")
    world.now += timedelta(hours=1)
    return world


def claims(world: SimulatedCluster) -> list[NodeClaim]:
    return list(list_claims(world.kube).claims)


def memory(world: SimulatedCluster, kind: Any) -> Any:
    return kind(world.ledger._client, world.ledger._table)


def end_pods(world: SimulatedCluster, claim: NodeClaim) -> None:
    for pod in world.kube.all(kinds.PODS):
        if pod["spec"].get("nodeName") == claim.node_name:
            del world.kube.objects["pods", "default", pod["metadata"]["name"]]


def node_of(world: SimulatedCluster, pod: str) -> str:
    return str(world.kube.objects["pods", "default", pod]["spec"]["nodeName"])


def retired(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["claim"], each["reason"]) for each in answer["retire"]]


def looked(world: SimulatedCluster, number: int, *, after: int = 60) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the surveys of one sweep, some seconds after the last."""
    world.now += timedelta(seconds=after)
    return world.survey(f"s{number}")


def without_claim(world: SimulatedCluster, claim: NodeClaim) -> None:
    """Remove the claim and its finalizer, as a person does."""
    del world.kube.objects["nodeclaims", "", claim.name]


def without_node(world: SimulatedCluster, claim: NodeClaim) -> None:
    del world.kube.objects["nodes", "", claim.node_name]


def launch_of(world: SimulatedCluster, instance: str) -> str:
    return world.ledger.pairings([instance])[instance].launch
