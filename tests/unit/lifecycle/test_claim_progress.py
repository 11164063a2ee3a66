"""Stages of claims, the capacity that claims reserve, and what the sweep does at each stage."""

from datetime import timedelta

import pytest

from joiner.lifecycle.checks.check_registry import CHECKS
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.claim_progress import assess_progress, list_uncovered_pods, open_assignments
from joiner.lifecycle.failed_claims import CONDITION_OF_REASON
from joiner.planning.model.pending_pods import GIVEN_UP
from joiner.pools import NodeClaim
from joiner.pools.conditions import Status
from tests.unit.lifecycle.joining_nodes import NOON, claim, node, pod

STATUSES: tuple[Status, ...] = ("Unknown", "False")


def written(name: str, lease: int = 3) -> NodeClaim:
    """Return a claim that was written and not launched."""
    return claim(name, provider_id="", annotations={"joiner.dev/lease": str(lease)} if lease else {})


def launched(name: str, instance: str = "i-1") -> NodeClaim:
    return claim(name, provider_id=f"aws:///us-east-1a/{instance}").with_condition("Launched", "True", at=NOON)


def stands(
    claims: list[NodeClaim], *, launching: tuple[str, ...] = (), watched: tuple[str, ...] = (), lease: int = 4
) -> dict[str, list[str]]:
    state = assess_progress(claims, launching=launching, watched=watched, lease=lease)
    parts = {"way": state.on_their_way, "entering": state.entering, "stale": state.stale, "unwatched": state.unwatched}
    return {name: [each.name for each in found] for name, found in parts.items() if found}


def test_a_claim_of_an_older_lease_that_was_never_sent_is_stale() -> None:
    assert stands([written("a")]) == {"stale": ["a"]}
    assert stands([written("a", lease=4)]) == {}


def test_a_claim_that_a_person_wrote_is_never_stale() -> None:
    assert stands([written("a", lease=0)]) == {}


def test_a_claim_whose_launch_is_recorded_is_on_its_way_whatever_its_lease() -> None:
    assert stands([written("a", lease=1)], launching=("a",)) == {"way": ["a"], "entering": ["a"]}


def test_a_launched_claim_is_on_its_way_until_it_is_initialized_and_wants_a_watcher() -> None:
    joined = launched("a").as_registered("node-1", at=NOON)

    assert stands([joined]) == {"way": ["a"], "unwatched": ["a"]}
    assert stands([joined], watched=("a",)) == {"way": ["a"]}
    assert stands([joined.as_initialized(at=NOON)]) == {}


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("Registered", "RegistrationTimeout"), ("Registered", "NodeGone"), ("Initialized", "InitializationTimeout")],
)
def test_a_claim_that_was_given_up_is_neither_on_its_way_nor_awaited(condition: str, reason: str) -> None:
    assert stands([launched("a").with_condition(condition, "False", reason, at=NOON)]) == {}


def test_a_node_that_boots_is_not_given_up_whatever_its_conditions_are() -> None:
    for status in STATUSES:
        booting = launched("a").with_condition("Registered", status, "NodeNotJoined", at=NOON)
        assert stands([booting]) == {"way": ["a"], "unwatched": ["a"]}


def test_plans_and_the_sweep_give_up_the_same_claims() -> None:
    assert {(condition, reason) for reason, condition in CONDITION_OF_REASON.items()} == set(GIVEN_UP)


def test_a_claim_that_is_being_deleted_is_awaited_by_no_execution() -> None:
    assert stands([claim(deletion=NOON)]) == {}


def test_room_is_kept_for_the_pods_that_have_not_come_yet() -> None:
    waiting, there = pod("waiting"), pod("there", on="node-1")
    assigned = {"a": {waiting.class_key: 3}, "b": {waiting.class_key: 1}}

    kept = open_assignments([launched("a"), launched("b", "i-2")], assigned, [node()], [waiting, there])

    assert kept == {"a": {waiting.class_key: 2}, "b": {waiting.class_key: 1}}


def test_pods_are_covered_by_class_not_by_name() -> None:
    pods = [pod("one"), pod("two"), pod("other", cpu="500m")]

    assert [each.name for each in list_uncovered_pods(pods, [{pods[0].class_key: 1}])] == ["two", "other"]
    assert list_uncovered_pods(pods, [{pods[0].class_key: 2}, {pods[2].class_key: 1}]) == []


def test_only_pods_that_a_node_could_help_are_counted() -> None:
    assert (
        list_uncovered_pods(
            [pod("untried", unschedulable=False), pod("daemon", owner="DaemonSet"), pod("runs", on="node-1")], []
        )
        == []
    )


def findings(survey: ClusterSurvey) -> dict[str, list[str]]:
    return {check.name: found for check in CHECKS if (found := check.find(survey))}


def test_the_sweep_finds_nothing_in_a_quiet_cluster() -> None:
    assert findings(ClusterSurvey(now=NOON, pods=(pod("runs", on="node-1"),), nodes=(node(),))) == {}


def test_the_sweep_finds_a_pending_pod_unless_its_node_is_launched() -> None:
    waiting = pod("web")
    quiet = ClusterSurvey(
        now=NOON,
        pods=(waiting,),
        claims=(launched("a"),),
        assignments={"a": {waiting.class_key: 1}},
        watches={"up-1": (int(NOON.timestamp()), ("a",))},
    )

    assert findings(ClusterSurvey(now=NOON, pods=(waiting,))) == {"pendingPods": ["pod default/web waits for a node"]}
    assert findings(quiet) == {}


def test_the_sweep_finds_claims_that_a_stopped_execution_awaits() -> None:
    long_ago = int((NOON - timedelta(minutes=3)).timestamp())
    survey = ClusterSurvey(now=NOON, claims=(launched("a"),), watches={"up-1": (long_ago, ("a",))})

    assert findings(survey) == {"unwatchedClaims": ["no running execution awaits the node of NodeClaim/a"]}


def test_the_sweep_finds_claims_that_will_never_be_launched() -> None:
    survey = ClusterSurvey(now=NOON, claims=(written("a", lease=3),), lease=4)

    assert findings(survey) == {"staleClaims": ["NodeClaim/a was never launched and its lease 3 has passed"]}


def test_the_sweep_finds_nodes_with_the_taint_filling_for_too_long() -> None:
    ours = {"karpenter.sh/provisioner-name": "default"}
    long_ago, lately = "2026-11-21T11:54:00Z", "2026-11-21T11:56:00Z"
    nodes = (
        node("old", labels=ours, created=long_ago),
        node("young", labels=ours, created=lately),
        node("open", labels=ours, created=long_ago, taints=[]),
        node("foreign", created=long_ago),
    )

    assert findings(ClusterSurvey(now=NOON, nodes=nodes)) == {"closedNodes": ["node old has been closed for too long"]}
