"""Which nodes are being retired, which pods will need another node, and which retirements have begun and not ended."""

from dataclasses import replace
from typing import Any

import pytest

from joiner.cluster import Pod, Taint
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.checks.unfinished_retirements import HALF_BEGUN
from joiner.lifecycle.claim_progress import list_uncovered_pods
from joiner.lifecycle.retirement import RetirementReason, RetirementStage, RetiringClaim
from joiner.names import DISRUPTED
from joiner.pools.retiring_nodes import find_marked_nodes, find_retiring_nodes
from tests.unit.lifecycle.joining_nodes import NOON, claim, node, pod

CLOSED = Taint(DISRUPTED, "NoSchedule")
STANDING = replace(claim(), provider_id="aws:///a/i-1", node_name="node-1")
HOME = node("node-1", provider_id="aws:///a/i-1")


def moving(**fields: Any) -> Pod:
    return replace(pod("web", on="node-1"), owner_kind="ReplicaSet", phase="Running", unschedulable=None, **fields)


def test_a_node_leaves_when_it_or_its_claim_is_deleted_and_is_marked_when_it_is_only_closed() -> None:
    deleted = replace(STANDING, deletion=NOON)

    assert find_retiring_nodes([HOME], [STANDING]) == set()
    assert find_retiring_nodes([HOME], [deleted]) == {"node-1"}
    assert find_retiring_nodes([replace(HOME, deletion="2026-11-21T12:00:00Z")], [STANDING]) == {"node-1"}
    closed = replace(HOME, taints=(CLOSED,))
    assert (find_retiring_nodes([closed], [STANDING]), find_marked_nodes([closed], [STANDING])) == (
        frozenset(),
        frozenset({"node-1"}),
    )
    assert (find_retiring_nodes([closed], [deleted]), find_marked_nodes([closed], [deleted])) == (
        frozenset({"node-1"}),
        frozenset(),
    )
    assert (find_retiring_nodes([closed], []), find_marked_nodes([closed], [])) == (frozenset({"node-1"}), frozenset())
    assert find_retiring_nodes([node("other", provider_id="aws:///a/i-2")], [deleted]) == set()


def test_pods_of_a_leaving_node_want_a_place_unless_a_slot_waits_for_them() -> None:
    one = moving()

    assert list_uncovered_pods([one], []) == []
    assert list_uncovered_pods([one], [], leaving={"node-1"}) == [one]
    assert list_uncovered_pods([one], [{one.class_key: 1}], leaving={"node-1"}) == []


@pytest.mark.parametrize(
    "staying",
    [
        {"owner_kind": ""},
        {"owner_kind": "DaemonSet"},
        {"phase": "Succeeded"},
        {"deletion": "2026-11-21T12:00:00Z"},
        {"protection": "true"},
    ],
    ids=str,
)
def test_pods_without_a_controller_and_pods_that_stay_need_no_other_node(staying: dict[str, Any]) -> None:
    assert list_uncovered_pods([replace(moving(), **staying)], [], leaving={"node-1"}) == []


def test_a_node_that_was_closed_for_a_retirement_that_died_is_asked_for_again() -> None:
    def found(**fields: Any) -> list[str]:
        survey = ClusterSurvey(
            now=NOON, nodes=(replace(HOME, taints=(CLOSED,)),), claims=(replace(STANDING, **fields),)
        )
        return [due.reason for due in HALF_BEGUN.find(survey)]

    assert found() == ["empty"]
    assert found(deletion=NOON) == []
    assert HALF_BEGUN.find(ClusterSurvey(now=NOON, nodes=(HOME,), claims=(STANDING,))) == []


def test_of_several_reasons_what_cannot_wait_comes_before_what_need_not_be() -> None:
    fields = sorted(RetirementReason, key=lambda reason: reason.urgency, reverse=True)

    assert [str(reason) for reason in fields] == [
        "lost",
        "impaired",
        "spot",
        "reservation",
        "maintenance",
        "unhealthy",
        "deleted",
        "uninstalled",
        "never-joined",
        "rebalance",
        "recommended",
        "expired",
        "aged",
        "drifted",
        "surplus",
        "consolidated",
        "empty",
    ]


def test_a_retirement_travels_between_states_whole_but_for_a_long_reason() -> None:
    one = RetiringClaim(
        "a", RetirementReason.SPOT, kind="NodeClaim", instance="i-1", node="node-1", since=1, launched=2, emptied=3
    ).at(RetirementStage.DRAINED, "x" * 999)

    assert RetiringClaim.from_json(one.to_json()) == one
    assert len(one.why) == 300


def test_what_ec2_does_not_know_is_gone_minutes_after_its_launch() -> None:
    now = int(NOON.timestamp())
    one = RetiringClaim("a", RetirementReason.LOST, kind="NodeClaim", since=now)

    assert replace(one, launched=now - 300).unknown_is_gone(NOON)
    assert not replace(one, since=now - 999, launched=now - 299).unknown_is_gone(NOON)
    assert [replace(one, since=now - ago).unknown_is_gone(NOON) for ago in (299, 300)] == [False, True]


def test_what_ec2_does_not_know_is_gone_at_once_where_another_retirement_came_to_its_end() -> None:
    now = int(NOON.timestamp())

    assert RetiringClaim("a", RetirementReason.DELETED, instance="i-1", since=now).unknown_is_gone(NOON)
    assert not RetiringClaim("a", RetirementReason.LOST, instance="i-1", node="n", since=now).unknown_is_gone(NOON)


def test_a_node_name_that_ec2_gave_to_another_instance_is_no_node_of_the_claim() -> None:
    retiring = RetiringClaim("web-1", RetirementReason.EMPTY, instance="i-1", node="node-1")

    assert retiring.find_mismatch("i-1", []) == ""
    assert retiring.find_mismatch("", ["web-1"]) == ""
    assert retiring.find_mismatch("i-2", ["web-1"]) == "node node-1 belongs to instance i-2 now"
    assert retiring.find_mismatch("", ["web-2"]) == "node node-1 belongs to no instance of this claim now"
    assert replace(retiring, instance="").find_mismatch("i-2", []) == ""
