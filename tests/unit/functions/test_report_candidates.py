"""What users see after a look for nodes to disrupt: the condition Consolidatable, and the events of nodes that stay."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.find_candidates import handler as find_candidates
from functions.report_candidates import handler as report_candidates
from joiner.adapters import documents, sweep_documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.disruption.disruption_history import SeenPods
from joiner.disruption.last_pod_events import digest_snapshot
from joiner.disruption.proposal import KeptNode, Proposal
from joiner.planning import Snapshot
from joiner.pools import read_node_claim
from tests.unit.functions.disruption_execution import task
from tests.unit.functions.grown_cluster import grow
from tests.unit.functions.simulated_cluster import SimulatedCluster

BUDGET = "PodDisruptionBudget default/web allows no eviction of pod default/web-1"
KEPT = (
    KeptNode("default-1", "node-1", "DisruptionBlocked", BUDGET),
    KeptNode("default-2", "node-2", "Unconsolidatable", "no cheaper node holds its pods"),
)


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with two nodes that run a pod each, an hour after they joined."""
    grow(cluster)
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m"}
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    cluster.now += timedelta(hours=1)
    return cluster


def report(cluster: SimulatedCluster, *kept: KeptNode) -> dict[str, int]:
    view = ListedCluster(cluster.kube, find_candidates.DISRUPTED)
    listing = find_candidates.CandidateListing(view, cluster.ledger, cluster.store, AutoscalerDetection(cluster.kube))
    snapshot = listing.answer(task(0), cluster.now, 0)["snapshot"]
    proposal = documents.put_proposal(cluster.store, task(0), Proposal((), kept))
    report = report_candidates.CandidateReport(cluster.kube, cluster.store)
    answer: dict[str, int] = report.answer(task(0), proposal, snapshot, cluster.now)
    return answer


def consolidatable(cluster: SimulatedCluster) -> dict[str, str]:
    claims = (read_node_claim(each) for each in cluster.kube.all(kinds.NODECLAIMS))
    return {claim.name: claim.conditions["Consolidatable"].status for claim in claims}


def note_event(cluster: SimulatedCluster, claim: str, minutes_ago: int) -> None:
    """Record that a pod last came to a node, or left it, so many minutes ago."""
    lists = ListedCluster(cluster.kube, find_candidates.DISRUPTED).lists()
    digests = digest_snapshot(Snapshot.from_lists(lists))
    at = int((cluster.now - timedelta(minutes=minutes_ago)).timestamp())
    seen = {key: SeenPods(digest, at if key.endswith(claim) else 0) for key, digest in digests.items()}
    sweep_documents.put_pod_events(cluster.store, seen)


def test_a_claim_is_consolidatable_when_its_node_was_left_alone_for_consolidate_after(grown: SimulatedCluster) -> None:
    note_event(grown, "default-1", 9)
    assert report(grown) == {"conditions": 1, "events": 0}
    assert consolidatable(grown) == {"default-1": "Unknown", "default-2": "True"}

    grown.now += timedelta(minutes=1)
    assert report(grown) == {"conditions": 1, "events": 0}
    assert consolidatable(grown) == {"default-1": "True", "default-2": "True"}

    note_event(grown, "default-2", 0)
    assert report(grown) == {"conditions": 1, "events": 0}
    assert consolidatable(grown) == {"default-1": "True", "default-2": "Unknown"}
    assert report(grown) == {"conditions": 0, "events": 0}


def test_the_reason_of_each_node_that_stays_is_reported_once_in_a_slot(grown: SimulatedCluster) -> None:
    """A slot has 15 minutes; looks are at least five minutes apart in a cluster that changes all the time."""
    grown.now = grown.now.replace(minute=0, second=0, microsecond=0)
    for minute in (5, 10, 14):
        other = KEPT if minute == 5 else [replace(each, message=f"{each.message} {minute}") for each in KEPT]
        assert report(grown, *other)["events"] == 4  # whatever figures have changed meanwhile
        grown.now = grown.now.replace(minute=minute)
    events = sorted(
        (each["reason"], each["regarding"]["kind"], each["regarding"]["name"], each["note"])
        for each in grown.kube.all(kinds.EVENTS)
        if each["reason"] in ("DisruptionBlocked", "Unconsolidatable")
    )

    assert events == [
        ("DisruptionBlocked", "Node", "node-1", BUDGET),
        ("DisruptionBlocked", "NodeClaim", "default-1", BUDGET),
        ("Unconsolidatable", "Node", "node-2", "no cheaper node holds its pods"),
        ("Unconsolidatable", "NodeClaim", "default-2", "no cheaper node holds its pods"),
    ]
    after = {}
    for minute in (14, 16):
        grown.now = grown.now.replace(minute=minute)
        report(grown, *KEPT)
        counted = Counter(each["reason"] for each in grown.kube.all(kinds.EVENTS))
        after[minute] = (counted["DisruptionBlocked"], counted["Unconsolidatable"])
    assert after == {14: (2, 2), 16: (4, 4)}


def blocked_pools(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    return sorted(
        (each["regarding"]["name"], each["note"])
        for each in cluster.kube.all(kinds.EVENTS)
        if (each["reason"], each["regarding"]["kind"]) == ("DisruptionBlocked", "NodePool")
    )


def test_a_pool_whose_budgets_allow_no_node_is_reported_with_each_reason(grown: SimulatedCluster) -> None:
    budgets = [{"nodes": "0", "reasons": ["Underutilized"]}, {"nodes": "100%"}]
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m", "budgets": budgets}
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    note_event(grown, "default-1", 9)
    note_event(grown, "default-2", 9)
    report(grown)
    assert blocked_pools(grown) == [
        ("default", "The budgets of NodePool/default allow no disruption for the reason Underutilized now")
    ]


def test_a_blocked_pool_is_reported_again_after_two_minutes(grown: SimulatedCluster) -> None:
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m", "budgets": [{"nodes": "0"}]}
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    reported = {}
    for minute, second in ((0, 0), (1, 59), (2, 0)):
        grown.now = grown.now.replace(minute=minute, second=second, microsecond=0)
        report(grown)
        reported[minute, second] = len(blocked_pools(grown))
    assert reported == {(0, 0): 1, (1, 59): 1, (2, 0): 2}


def test_a_pool_whose_budget_is_used_by_nodes_in_disruption_is_not_reported(grown: SimulatedCluster) -> None:
    """The budget allows one of its two nodes, and one of them is not ready."""
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m", "budgets": [{"nodes": "1"}]}
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    grown.kube.objects["nodes", "", "node-1"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    report(grown)

    assert consolidatable(grown)["default-2"] == "True"
    assert blocked_pools(grown) == []


def test_a_pool_is_not_reported_for_a_reason_that_none_of_its_nodes_has(grown: SimulatedCluster) -> None:
    budgets = [{"nodes": "0", "reasons": ["Empty", "Drifted"]}]
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m", "budgets": budgets}
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    report(grown)
    assert blocked_pools(grown) == []

    for pod in ("web-1", "web-2"):
        grown.kube.objects["pods", "default", pod]["status"]["phase"] = "Succeeded"
    grown.now += timedelta(hours=1)
    report(grown)
    assert blocked_pools(grown) == [
        ("default", "The budgets of NodePool/default allow no disruption for the reason Empty now")
    ]


def test_the_nodes_of_a_static_pool_are_not_consolidatable(grown: SimulatedCluster) -> None:
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"replicas": 2}})

    report(grown)

    claims = [read_node_claim(each) for each in grown.kube.all(kinds.NODECLAIMS)]
    assert [claim.conditions.true("Consolidatable") for claim in claims] == [False, False]
