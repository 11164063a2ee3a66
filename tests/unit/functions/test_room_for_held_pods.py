"""Pods that the drain of their node will not evict soon: no search and no sweep asks for room, and no plan has any."""

from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import documents
from joiner.lifecycle.pod_gathering import Gathering
from joiner.pools.timestamps import format_timestamp
from tests.unit.functions.grown_cluster import first, grow, node_of
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.sweeping import looked
from tests.unit.functions.test_pending_pod_search import TimedSearch

NEVER = {"maxUnavailable": 0}
ONE = {"maxUnavailable": 1}


@pytest.fixture
def draining(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster whose first node is being drained."""
    grow(cluster)
    claim = first(cluster)
    manifest = cluster.kube.objects["nodeclaims", "", claim.name]
    manifest["metadata"] |= {"deletionTimestamp": format_timestamp(cluster.now), "finalizers": ["f"]}
    node_of(cluster, claim)["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    return cluster


def pod_of(cluster: SimulatedCluster) -> Any:
    return cluster.kube.objects["pods", "default", "web-1"]


def protect(cluster: SimulatedCluster, lasts: str) -> None:
    pod = pod_of(cluster)
    pod["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": lasts}
    pod["status"]["startTime"] = format_timestamp(cluster.now)


def limit(cluster: SimulatedCluster, spec: dict[str, Any], name: str = "web") -> None:
    pod_of(cluster)["metadata"]["labels"] = {"app": "web"}
    metadata = {"name": name, "namespace": "default"}
    selected = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    cluster.kube.put({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": selected})


def asks_for_room(cluster: SimulatedCluster) -> bool:
    """Return whether the pod needs room: a sweep, a search and its snapshot say the same."""
    swept = bool(looked(cluster, 1)[0]["pendingPods"])
    search = TimedSearch(cluster)
    found = search.answer()
    while not found["complete"]:
        found = search.answer(Gathering.from_json(found["gathering"]))
    world = documents.get_snapshot(cluster.store, found["snapshot"])
    planned = any(pod.moves for pod in world.pods if pod.name == "web-1")
    assert [bool(found["pods"]), planned] == [swept] * 2
    return swept


def test_a_pod_that_its_drain_evicts_now_needs_room(draining: SimulatedCluster) -> None:
    assert asks_for_room(draining)


@pytest.mark.parametrize(("lasts", "asks"), [("24h", False), ("12m", False), ("9m", True)])
def test_a_pod_needs_no_room_until_its_annotation_ends_soon(draining: SimulatedCluster, lasts: str, asks: bool) -> None:
    protect(draining, lasts)
    assert asks_for_room(draining) is asks


def test_a_sweep_finds_the_pod_when_its_annotation_ends_soon(draining: SimulatedCluster) -> None:
    protect(draining, "1h")
    assert not asks_for_room(draining)
    draining.now += timedelta(minutes=50)
    assert asks_for_room(draining)


@pytest.mark.parametrize(("spec", "asks"), [(NEVER, False), (ONE, True)])
def test_a_pod_needs_no_room_while_its_budget_never_allows_an_eviction(
    draining: SimulatedCluster, spec: dict[str, Any], asks: bool
) -> None:
    limit(draining, spec)
    assert asks_for_room(draining) is asks


def test_a_pod_with_such_a_budget_needs_room_before_the_deadline_of_its_drain(draining: SimulatedCluster) -> None:
    limit(draining, NEVER)
    spec = draining.kube.objects["nodeclaims", "", first(draining).name]["spec"]
    spec["terminationGracePeriod"] = "1h"
    assert not asks_for_room(draining)
    draining.now += timedelta(minutes=50)
    assert asks_for_room(draining)
