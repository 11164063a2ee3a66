"""What the checker of the end-to-end tests calls a broken rule of pods: their annotations and PodDisruptionBudgets, at
the begin of a disruption and when a pod ends.
"""

from typing import Final

import pytest

from tests.unit.written_history import NOON, READY, USER, Cluster, timestamp

# --- pods that forbid the disruption of their node


def test_a_node_whose_pod_must_not_be_disrupted_stays_although_the_pod_does_not_end() -> None:
    known, too_new, over, asked = (Cluster() for _ in range(4))
    known.pod("db", "a", protection="true")
    too_new.pod("db", "a")
    too_new.protect(0, "pod", "default/db")
    over.pod("db", "a", protection="5m", started=-600)
    asked.pod("db", "a", protection="true")
    for cluster in (known, too_new, over):
        cluster.taint(1, "a")
    asked.delete_claim(1, "a", by=USER)

    assert known.violations == ["pod default/db must not be disrupted, and node a leaves"]
    assert too_new.violations == over.violations == asked.violations == []


@pytest.mark.parametrize(("reason", "found"), [("Underutilized", 1), ("Drifted", 0), ("Expired", 0), ("", 0)])
def test_pods_on_a_node_with_a_deadline_forbid_only_its_consolidation(reason: str, found: int) -> None:
    cluster = Cluster(claim={"terminationGracePeriod": "1h"})
    cluster.pod("db", "a", protection="true")
    cluster.taint(1, "a")
    if reason:
        cluster.state(2, "a", reason)
    assert cluster.violations == ["pod default/db must not be disrupted, and node a leaves"][:found]


def test_a_node_with_a_pod_that_a_disruption_budget_keeps_stays() -> None:
    kept, other, allowed, too_new, sick, by_rollout, tolerant = (Cluster() for _ in range(7))
    for cluster in (kept, allowed, too_new, sick):
        cluster.pod("web-1", "a")
    other.pod("db-1", "a")
    by_rollout.pod("web-1", "a")
    by_rollout.change_metadata(-300, "pod", "default/web-1", annotations={"joiner.dev/drain": "rollout"})
    tolerant.pod("web-1", "a", tolerations=[{"operator": "Exists"}])
    sick.condition(-60, "pod", "default/web-1", {**READY, "status": "False"})
    for cluster in (kept, other, sick, by_rollout, tolerant):
        cluster.disruption_budget("web", 1, allowed=0)
    allowed.disruption_budget("web", 0, allowed=1)
    too_new.disruption_budget("web", 1, allowed=0, at=0)
    for cluster in (kept, other, allowed, too_new, sick, by_rollout, tolerant):
        cluster.taint(1, "a")

    assert kept.violations == [
        "PodDisruptionBudget default/web allows no eviction of pod default/web-1, and node a leaves"
    ]
    assert [each.violations for each in (other, allowed, too_new, sick, by_rollout, tolerant)] == [[]] * 6


# --- pods that must not be disrupted


@pytest.mark.parametrize(
    ("protection", "found"), [("true", 1), ("1h", 1), ("9m", 0), ("false", 0), ("later", 0), ("", 0)]
)
def test_a_protected_pod_does_not_end_before_its_time(protection: str, found: int) -> None:
    cluster = Cluster()
    cluster.pod("db", "a", protection=protection, started=-600)
    cluster.taint(1, "a")
    cluster.evict(2, "db")
    expected = [
        "pod default/db was evicted on node a, and must not be disrupted",
        "pod default/db must not be disrupted, and node a leaves",
    ]
    assert cluster.violations == (expected if found else [])


def test_a_protected_pod_of_a_node_that_a_user_deleted_does_not_end_either() -> None:
    cluster = Cluster()
    cluster.pod("db", "a", protection="true")
    cluster.delete_claim(1, "a", by=USER)
    cluster.evict(2, "db")
    assert cluster.violations == ["pod default/db was evicted on node a, and must not be disrupted"]


def test_a_protected_pod_may_end_by_force_at_a_deadline_and_by_others() -> None:
    forced, overdue, scaled, ended, daemon = (Cluster(claim={"terminationGracePeriod": "1m"}) for _ in range(5))
    owner = [{"kind": "DaemonSet", "name": "agent"}]
    for cluster in (forced, overdue, scaled, ended):
        cluster.pod("db", "a", protection="true")
    forced.strike(0, "a", "interrupt")
    forced.taint(1, "a")
    forced.evict(2, "db")
    overdue.delete_claim(1, "a", by=USER)
    overdue.delete(61, "db")
    scaled.taint(1, "a")
    scaled.delete(2, "db", by="system:serviceaccount:kube-system:replicaset-controller")
    ended.finish(0, "db")
    ended.delete(2, "db")
    daemon.pod("agent", "a", protection="true")
    daemon.change_metadata(0, "pod", "default/agent", ownerReferences=owner)
    daemon.taint(1, "a")
    daemon.evict(2, "agent")

    assert [each.violations for each in (forced, overdue, scaled, ended, daemon)] == [[]] * 5


def test_a_deadline_that_is_not_over_excuses_nothing() -> None:
    cluster = Cluster(claim={"terminationGracePeriod": "1m"})
    cluster.pod("db", "a", protection="true")
    cluster.delete_claim(1, "a", by=USER)
    cluster.delete(30, "db")
    assert cluster.violations == ["pod default/db was deleted on node a, and must not be disrupted"]


# --- PodDisruptionBudgets

BELOW: Final = "which leaves 1 healthy pods of the 2 that PodDisruptionBudget default/web asks for"


def served(healthy: int = 2) -> Cluster:
    cluster = Cluster()
    cluster.pod("web-1", "a")
    cluster.pod("web-2", "b")
    cluster.disruption_budget("web", healthy)
    cluster.taint(1, "a")
    return cluster


def test_a_deletion_that_a_disruption_budget_forbids_is_reported_and_one_that_it_allows_is_not() -> None:
    forbidden, allowed = served(2), served(1)
    forbidden.delete(2, "web-1")
    allowed.delete(2, "web-1")
    assert forbidden.violations == [f"pod default/web-1 was deleted on node a, {BELOW}"]
    assert allowed.violations == []


def test_a_pod_that_is_deleted_with_its_node_counts() -> None:
    ours, lost, user = served(2), served(2), served(2)
    ours.end_instance(20, "a")
    ours.remove_node(21, "a")
    lost.end_instance(0, "a")
    lost.remove_node(21, "a")
    user.remove_node(21, "a", by=USER)
    assert ours.violations == [f"pod default/web-1 was deleted with its node a, {BELOW}"]
    assert lost.violations == user.violations == []


def test_a_pod_that_was_not_healthy_or_is_of_another_app_leaves_as_many_healthy_ones() -> None:
    sick, other = served(1), served(2)
    sick.condition(1, "pod", "default/web-1", {**READY, "status": "False"})
    sick.delete(2, "web-1")
    other.pod("db", "a")
    other.delete(2, "db")
    assert sick.violations == other.violations == []


def test_evictions_are_granted_by_the_api_server() -> None:
    cluster = served(2)
    cluster.evict(2, "web-1")
    assert cluster.violations == []


def test_pods_that_terminate_already_are_not_healthy() -> None:
    cluster = served(1)
    cluster.change_metadata(1, "pod", "default/web-2", deletionTimestamp=timestamp(NOON + 1))
    cluster.delete(2, "web-1")
    assert cluster.violations == [
        "pod default/web-1 was deleted on node a, which leaves 0 healthy pods of the 1 that PodDisruptionBudget "
        "default/web asks for"
    ]
