"""What the checker of the end-to-end tests calls a broken rule of disruption: each kind of violation is created and
reported, and so is no case that only looks like one.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.unit.written_history import NOON, READY, USER, Cluster, timestamp

# --- budgets of pools

TWO_OF_TWO: Final = "2 of 2 nodes of pool p leave or are not Ready, and its budgets allow 1: a, b"


def test_nodes_beyond_the_budget_of_their_pool_are_reported() -> None:
    both = Cluster()
    both.taint(1, "a", "b")
    assert both.violations == [TWO_OF_TWO]

    one_after_the_other = Cluster()
    one_after_the_other.taint(1, "a")
    one_after_the_other.untaint(2, "a")
    one_after_the_other.taint(3, "b")
    assert one_after_the_other.violations == []


def test_a_claim_that_is_deleted_leaves_without_a_taint() -> None:
    cluster = Cluster()
    cluster.delete_claim(1, "a")
    cluster.taint(2, "b")
    assert cluster.violations == [TWO_OF_TWO]


def test_a_node_that_is_deleted_at_once_leaves_too() -> None:
    cluster = Cluster(budgets=[{"nodes": "0"}])
    cluster.remove_node(1, "a")
    assert cluster.violations == [
        "1 of 2 nodes of pool p leave or are not Ready, and its budgets allow 0: a",
    ]


@pytest.mark.parametrize(("not_ready", "found"), [(-60, [TWO_OF_TWO]), (-5, [])])
def test_a_node_that_is_not_ready_counts_once_it_is_known(not_ready: float, found: list[str]) -> None:
    cluster = Cluster()
    cluster.condition(not_ready, "node", "a", {**READY, "status": "False"})
    cluster.taint(1, "b")
    assert cluster.violations == found


@pytest.mark.parametrize(("asked", "found"), [(-60, [TWO_OF_TWO]), (-5, [])])
def test_a_node_that_a_user_deleted_counts_once_it_is_known(asked: float, found: list[str]) -> None:
    cluster = Cluster()
    cluster.delete_claim(asked, "a", by=USER)
    cluster.taint(1, "b")
    assert cluster.violations == found


def test_what_leaves_involuntarily_breaks_no_budget() -> None:
    asked, expired, struck, unhealthy, lost = (Cluster(budgets=[{"nodes": "0"}]) for _ in range(5))
    asked.delete_claim(1, "a", by=USER)
    struck.strike(0, "a", "interrupt")
    struck.taint(1, "a")
    unhealthy.condition(0, "node", "a", {"type": "KernelReady", "status": "False"})
    unhealthy.taint(1, "a")
    lost.end_instance(0, "a")
    lost.taint(1, "a")
    expired = Cluster(budgets=[{"nodes": "0"}], claim={"expireAfter": "1h"})
    expired.taint(1, "a")

    assert [each.violations for each in (asked, expired, struck, unhealthy, lost)] == [[]] * 5


@pytest.mark.parametrize("annotation", ["", "graceful"])
def test_an_expired_claim_ignores_budgets_unless_its_pool_is_graceful(annotation: str) -> None:
    cluster = Cluster(
        budgets=[{"nodes": "0"}], claim={"expireAfter": "1h"}, pool_annotations={"joiner.dev/expiration": annotation}
    )
    cluster.taint(1, "a")
    assert len(cluster.violations) == (annotation == "graceful")


def test_a_strike_after_the_begin_excuses_nothing() -> None:
    cluster = Cluster(budgets=[{"nodes": "0"}])
    cluster.taint(1, "a")
    cluster.strike(10, "a", "interrupt")
    cluster.end_instance(20, "a")
    assert len(cluster.violations) == 1


@pytest.mark.parametrize(("choice", "found"), [("drain", 0), ("replace", 1)])
def test_a_recommendation_excuses_a_node_only_in_a_pool_that_drains(choice: str, found: int) -> None:
    cluster = Cluster(budgets=[{"nodes": "0"}], pool_annotations={"joiner.dev/rebalance": choice})
    cluster.strike(0, "a", "rebalance")
    cluster.taint(1, "a")
    assert len(cluster.violations) == found


@pytest.mark.parametrize(("replicas", "found"), [(1, 0), (2, 1)])
def test_a_static_pool_may_remove_its_surplus(replicas: int, found: int) -> None:
    cluster = Cluster(budgets=[{"nodes": "0"}], pool={"replicas": replicas})
    cluster.taint(1, "a")
    assert len(cluster.violations) == found


@pytest.mark.parametrize(("schedule", "found"), [("0 11 * * *", 1), ("0 9 * * *", 0), ("0 11 * * mon-fri", 0)])
def test_a_budget_holds_in_its_window(schedule: str, found: int) -> None:
    window = {"nodes": "0", "schedule": schedule, "duration": "2h"}
    cluster = Cluster(budgets=[{"nodes": "1"}, window])
    cluster.taint(1, "a")
    assert len(cluster.violations) == found


def test_a_window_is_open_in_the_time_zone_of_its_pool() -> None:
    window = {"nodes": "0", "schedule": "0 17 * * *", "duration": "2h"}  # noon is 17:45 in Kathmandu
    here, there = (
        Cluster(budgets=[window], pool_annotations=zone)
        for zone in ({}, {"joiner.dev/budget-time-zone": "Asia/Kathmandu"})
    )
    here.taint(1, "a")
    there.taint(1, "a")
    assert (len(here.violations), len(there.violations)) == (0, 1)


def test_a_budget_holds_for_its_reasons() -> None:
    budgets: list[Mapping[str, Any]] = [{"nodes": "0", "reasons": ["Underutilized"]}, {"nodes": "1"}]
    drifted, underutilized, empty = (Cluster(budgets=budgets) for _ in range(3))
    for cluster, reason in ((drifted, "Drifted"), (underutilized, "Underutilized")):
        cluster.pod("web", "a")
        cluster.state(0, "a", reason)
        cluster.taint(1, "a")
    empty.taint(1, "a")
    assert [len(each.violations) for each in (drifted, underutilized, empty)] == [0, 1, 0]


def test_a_node_with_pods_is_not_empty_whatever_its_claim_states() -> None:
    budgets = [{"nodes": "0", "reasons": ["Underutilized", "Drifted"]}]
    used, unused = Cluster(budgets=[*budgets]), Cluster(budgets=[*budgets])
    used.pod("web", "a")
    for cluster in (used, unused):
        cluster.state(0, "a", "Empty")
        cluster.taint(1, "a")
    assert [len(each.violations) for each in (used, unused)] == [1, 0]


def test_a_percentage_is_rounded_up_and_the_strictest_budget_counts() -> None:
    cluster = Cluster(nodes="abcde", budgets=[{"nodes": "30%"}, {"nodes": "3"}])
    cluster.taint(1, "a", "b")
    assert cluster.violations == []
    cluster.taint(2, "c")
    assert cluster.violations == ["3 of 5 nodes of pool p leave or are not Ready, and its budgets allow 2: a, b, c"]


def test_a_provisioner_has_no_budgets_and_keeps_the_other_rules() -> None:
    cluster = Cluster(legacy=True)
    cluster.protect(-60, "node", "b")
    cluster.taint(1, "a", "b")
    assert cluster.violations == ["node b must not be disrupted, and node b leaves"]


def test_an_ended_instance_uses_no_budget() -> None:
    cluster = Cluster()
    cluster.taint(1, "a")
    cluster.end_instance(10, "a")
    cluster.taint(11, "b")
    assert cluster.violations == []


# --- annotations of nodes and claims


@pytest.mark.parametrize(("kind", "key"), [("node", "a"), ("claim", "claim-a")])
def test_a_node_that_must_not_be_disrupted_stays(kind: str, key: str) -> None:
    known, too_new, asked = Cluster(), Cluster(), Cluster()
    for cluster, at in ((known, -60), (too_new, 0), (asked, -60)):
        cluster.protect(at, kind, key)
    for cluster in (known, too_new):
        cluster.taint(1, "a")
    asked.delete_claim(1, "a", by=USER)

    assert known.violations == [f"{kind} {key} must not be disrupted, and node a leaves"]
    assert too_new.violations == asked.violations == []


# --- pods that must not be disrupted


@pytest.mark.parametrize(
    ("protection", "found"), [("true", 1), ("1h", 1), ("9m", 0), ("false", 0), ("later", 0), ("", 0)]
)
def test_a_protected_pod_does_not_end_before_its_time(protection: str, found: int) -> None:
    cluster = Cluster()
    cluster.pod("db", "a", protection=protection, started=-600)
    cluster.taint(1, "a")
    cluster.evict(2, "db")
    expected = ["pod default/db was evicted on node a, and must not be disrupted"]
    assert cluster.violations == expected[:found]


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
