"""What the checker of the end-to-end tests calls a broken budget of a pool, or a broken annotation of a node: each kind
of violation is created and reported, and so is no case that only looks like one.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.unit.written_history import NOON, READY, USER, Cluster, timestamp

# --- budgets of pools

TWO_OF_TWO: Final = "2 of 2 nodes of pool p leave or are not Ready, and its budgets allow 1: a, b"
NONE_OF_TWO: Final = "1 of 2 nodes of pool p leave or are not Ready, and its budgets allow 0: a"


def bad(kind: str, *, since: float) -> Mapping[str, str]:
    """Return a condition of a node that is False since a time (seconds after noon)."""
    return {"type": kind, "status": "False", "lastTransitionTime": timestamp(NOON + since)}


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
    assert cluster.violations == [NONE_OF_TWO]


@pytest.mark.parametrize(("not_ready", "found"), [(-60, [TWO_OF_TWO]), (-5, [])])
def test_a_node_that_is_not_ready_counts_once_it_is_known(not_ready: float, found: list[str]) -> None:
    cluster = Cluster()
    cluster.condition(not_ready, "node", "a", bad("Ready", since=not_ready))
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
    unhealthy.condition(-1800, "node", "a", bad("KernelReady", since=-1800))
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


@pytest.mark.parametrize(
    ("unhealthy", "declared", "found"),
    [
        (bad("Ready", since=-60), {}, 1),
        (bad("Ready", since=-1800), {}, 0),
        (bad("AcceleratedHardwareReady", since=-600), {}, 0),
        (bad("Ready", since=-60), {"joiner.dev/node-repair-tolerances": "StorageReady=Never,Ready=1m"}, 0),
        (bad("Ready", since=-1800), {"joiner.dev/node-repair-tolerances": "Ready=Never"}, 1),
        (bad("Ready", since=-1800), {"joiner.dev/node-repair": "disabled"}, 1),
    ],
)
def test_an_unhealthy_node_is_excused_after_the_tolerance_of_its_pool(
    unhealthy: Mapping[str, str], declared: Mapping[str, str], found: int
) -> None:
    cluster = Cluster(budgets=[{"nodes": "0"}], pool_annotations=declared)
    cluster.pod("db", "a", protection="true")
    cluster.condition(-60, "node", "a", unhealthy)
    cluster.taint(1, "a")
    cluster.evict(2, "db")
    expected = [
        NONE_OF_TWO,
        "pod default/db must not be disrupted, and node a leaves",
        "pod default/db was evicted on node a, and must not be disrupted",
    ]
    assert sorted(cluster.violations) == (expected if found else [])


def test_a_node_that_recovers_while_it_is_repaired_is_excused() -> None:
    cluster = Cluster(budgets=[{"nodes": "0"}])
    cluster.pod("db", "a", protection="true")
    cluster.condition(-60, "node", "a", bad("Ready", since=-1800))
    cluster.taint(1, "a")
    cluster.condition(2, "node", "a", READY)
    cluster.evict(3, "db")
    assert cluster.violations == []


ONLY_OTHERS: Final[list[Mapping[str, Any]]] = [{"nodes": "0", "reasons": ["Underutilized"]}, {"nodes": "1"}]


@pytest.mark.parametrize("stated", [0, 2])  # Joiner taints the node first
@pytest.mark.parametrize(("reason", "found"), [("Drifted", []), ("Expired", []), ("Underutilized", [NONE_OF_TWO])])
def test_a_budget_holds_for_its_reasons(stated: float, reason: str, found: list[str]) -> None:
    cluster = Cluster(budgets=ONLY_OTHERS)
    cluster.pod("web", "a")
    if stated < 1:
        cluster.state(stated, "a", reason)
    cluster.taint(1, "a")
    if stated > 1:
        cluster.state(stated, "a", reason)
    cluster.delete_claim(20, "a")
    cluster.remove_node(30, "a")
    assert cluster.violations == found


def test_a_reason_is_judged_by_the_nodes_that_left_at_its_begin() -> None:
    late, first = Cluster(budgets=[*ONLY_OTHERS]), Cluster(budgets=[{"nodes": "1", "reasons": ["Drifted"]}])
    for cluster in (late, first):
        cluster.pod("web-1", "a")
        cluster.pod("web-2", "b")
    late.taint(1, "a")
    late.taint(3, "b")
    late.state(4, "a", "Drifted")
    late.state(4, "b", "Drifted")
    first.taint(1, "a")
    first.taint(1, "b")
    first.state(2, "b", "Underutilized")
    first.state(2, "a", "Drifted")
    assert late.violations == [TWO_OF_TWO]
    assert first.violations == []


def test_an_empty_node_without_a_stated_reason_needs_a_budget_for_empty_nodes() -> None:
    budgets: list[Mapping[str, Any]] = [{"nodes": "0", "reasons": ["Empty"]}, {"nodes": "1"}]
    empty, used, drifted, undone = (Cluster(budgets=[*budgets]) for _ in range(4))
    used.pod("web", "a")
    for cluster in (empty, used, drifted, undone):
        cluster.taint(1, "a")
    drifted.state(2, "a", "Drifted")
    for cluster in (empty, used, drifted):
        cluster.delete_claim(3, "a")
    undone.untaint(3, "a")
    assert [each.violations for each in (empty, used, drifted, undone)] == [[NONE_OF_TWO], [], [], []]


def test_a_disruption_is_judged_if_it_is_undone_before_it_states_a_reason() -> None:
    undone = Cluster(budgets=[{"nodes": "0"}])
    undone.taint(1, "a")
    undone.untaint(2, "a")
    undone.taint(3, "a")
    assert undone.violations == [NONE_OF_TWO, NONE_OF_TWO]


def test_a_node_with_pods_is_not_empty_whatever_its_claim_states() -> None:
    budgets = [{"nodes": "0", "reasons": ["Underutilized", "Drifted"]}]
    used, unused = Cluster(budgets=[*budgets]), Cluster(budgets=[*budgets])
    used.pod("web", "a")
    for cluster in (used, unused):
        cluster.taint(1, "a")
        cluster.state(2, "a", "Empty")
    assert [each.violations for each in (used, unused)] == [[NONE_OF_TWO], []]


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
