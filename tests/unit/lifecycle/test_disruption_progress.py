"""What becomes of a disruption under way: retired, awaited, or undone."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from joiner.cluster import Node, Taint
from joiner.lifecycle.disruption_progress import (
    NO_FACTS,
    REFUSALS,
    REQUESTS,
    RETIRED_WITHIN,
    Due,
    Finished,
    LaunchFacts,
    Undone,
    Waiting,
    as_disrupted,
    as_kept,
    find_unplaced_pod,
    judge_disruption,
    retirement_reason,
)
from joiner.lifecycle.node_closing import mark_patch, untaint_patch
from joiner.lifecycle.retirement import DISRUPTION_REASON, RetirementReason
from joiner.pools import NodeClaim, NodeClassRef
from tests.unit.functions.small_account import NOON

AT = int(NOON.timestamp())


@dataclass(frozen=True)
class Recorded:
    claims: tuple[str, ...] = ("old",)
    replacements: tuple[str, ...] = ()
    since: int = AT
    deadline: int = AT + 600
    requests: int = 0
    requested_at: int = 0
    refusals: int = 0
    written: bool = True
    launched: tuple[str, ...] = ()
    unreadable: str = ""


def claim(name: str, *, initialized: bool = True, deleting: bool = False, marked: bool = False) -> NodeClaim:
    made = NodeClaim(name, NodeClassRef("EC2NodeClass", "default"), pool="default")
    made = made.with_condition("Initialized", "True", at=NOON) if initialized else made
    if marked:
        made = as_disrupted(made, "Underutilized", "saves $0.10/h", at=NOON)
    return replace(made, deletion=NOON) if deleting else made


def judged(
    record: Recorded,
    *claims: NodeClaim,
    tainted: tuple[str, ...] = ("old",),
    later: int = 0,
    facts: LaunchFacts = NO_FACTS,
) -> object:
    at = NOON + timedelta(seconds=later)
    return judge_disruption(record, {each.name: each for each in claims}, tainted, at, facts)


OLD = claim("old", marked=True)


def test_nodes_without_replacement_may_be_retired_at_once() -> None:
    assert judged(Recorded(), OLD) == Due(("old",))


def test_nodes_wait_until_all_replacements_are_initialized() -> None:
    record = Recorded(replacements=("new-1", "new-2"))

    booting = judged(record, OLD, claim("new-1"), claim("new-2", initialized=False))
    ready = judged(record, OLD, claim("new-1"), claim("new-2"))

    assert booting == Waiting("replacement new-2 is not initialized")
    assert ready == Due(("old",))


@pytest.mark.parametrize(
    ("replacement", "why"),
    [
        (None, "replacement new could not be launched"),
        (claim("new", deleting=True), "replacement new was deleted"),
        (
            claim("new", initialized=False).with_condition("Registered", "False", "RegistrationTimeout", at=NOON),
            "replacement new failed: RegistrationTimeout",
        ),
    ],
    ids=["no capacity", "deleted", "never registered"],
)
def test_a_replacement_that_fails_undoes_the_disruption(replacement: NodeClaim | None, why: str) -> None:
    claims = [OLD, *([replacement] if replacement is not None else [])]

    assert judged(Recorded(replacements=("new",)), *claims) == Undone(("old",), why, failed=True)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (RetirementReason.LOST, "the instance of replacement new ended"),
        (RetirementReason.NEVER_JOINED, "the node of replacement new did not join"),
        (RetirementReason.DELETED, "replacement new was deleted"),
        (RetirementReason.SPOT, "replacement new is retired (spot)"),
    ],
)
def test_the_reason_of_its_retirement_says_what_happened_to_a_replacement(reason: RetirementReason, why: str) -> None:
    facts = LaunchFacts(ending={"new": reason})

    found = judged(Recorded(replacements=("new",)), OLD, claim("new", deleting=True), facts=facts)

    assert found == Undone(("old",), why, failed=True)


def test_a_replacement_that_was_launched_and_is_gone_was_not_short_of_capacity() -> None:
    found = judged(Recorded(replacements=("new",), launched=("new",)), OLD)

    why = "replacement new was launched and is gone: its claim was deleted, or its instance ended"
    assert found == Undone(("old",), why, failed=True)


def test_a_replacement_that_nothing_launches_any_more_undoes_the_disruption_at_once() -> None:
    unlaunched, facts = claim("new", initialized=False), LaunchFacts(never_launched=("new",))

    found = judged(Recorded(replacements=("new",)), OLD, unlaunched, facts=facts)

    assert found == Undone(("old",), "replacement new was not launched", failed=True)


@pytest.mark.parametrize(
    ("replacements", "written", "there"),
    [((), False, ()), (("new",), False, ()), (("new",), True, ("new",)), (("new", "other"), True, ("new", "other"))],
    ids=["no replacement", "not written", "not launched", "one of two launched"],
)
def test_a_pause_undoes_what_it_keeps_from_going_on_and_no_pool_waits(
    replacements: tuple[str, ...], written: bool, there: tuple[str, ...]
) -> None:
    record = Recorded(replacements=replacements, written=written, launched=("other",))
    facts = LaunchFacts(never_launched=("new",), paused=True)

    found = judged(record, OLD, *(claim(name, initialized=False) for name in there), facts=facts)

    assert found == Undone(("old",), "Joiner is paused", failed=False)


def test_a_pause_keeps_what_has_launched_replacements_or_requested_retirements() -> None:
    launched, paused = Recorded(replacements=("new",), launched=("new",)), LaunchFacts(paused=True)
    booting = claim("new", initialized=False)

    assert judged(launched, OLD, booting, facts=paused) == Waiting("replacement new is not initialized")
    assert judged(launched, OLD, claim("new"), facts=paused) == Due(("old",))
    assert judged(Recorded(requests=1, requested_at=AT), OLD, later=RETIRED_WITHIN, facts=paused) == Due(("old",))


def test_a_replacement_that_does_not_join_within_ten_minutes_undoes_the_disruption() -> None:
    record, claims = Recorded(replacements=("new",)), (OLD, claim("new", initialized=False))

    assert judged(record, *claims, later=599) == Waiting("replacement new is not initialized")
    why = "replacement new was not initialized within 10 minutes"
    assert judged(record, *claims, later=600) == Undone(("old",), why, failed=True)


def test_a_disruption_is_finished_when_its_claims_are_deleted() -> None:
    assert judged(Recorded(("a", "b")), claim("a", deleting=True)) == Finished()


def test_a_claim_that_is_deleted_by_others_is_not_retired_again() -> None:
    assert judged(Recorded(("a", "b")), claim("a", deleting=True), claim("b", marked=True), tainted=("b",)) == Due(
        ("b",)
    )


def test_a_retirement_that_does_not_begin_is_requested_again_and_then_undone() -> None:
    requested = Recorded(requests=1, requested_at=AT)

    assert judged(requested, OLD, later=RETIRED_WITHIN - 1) == Waiting(
        "the retirement was requested and has not begun", requested=True
    )
    assert judged(requested, OLD, later=RETIRED_WITHIN) == Due(("old",))
    last = replace(requested, refusals=REFUSALS)
    assert judged(last, OLD, later=RETIRED_WITHIN) == Undone(
        ("old",), "the API server refused 3 requests to begin the retirement", failed=True
    )


def test_requests_that_nothing_refuses_go_on_for_an_hour() -> None:
    """No execution got the lease: the replacements run, and are not launched again."""
    requested = Recorded(requests=REQUESTS - 1, requested_at=AT)
    assert REQUESTS * RETIRED_WITHIN == 3600

    assert judged(requested, OLD, later=RETIRED_WITHIN) == Due(("old",))
    assert judged(replace(requested, requests=REQUESTS), OLD, later=RETIRED_WITHIN) == Undone(
        ("old",), "the retirement did not begin after 30 requests", failed=True
    )


@pytest.mark.parametrize("requests", [1, 2])
def test_hours_without_a_request_undo_no_disruption(requests: int) -> None:
    """Joiner was paused after the last request."""
    assert judged(Recorded(requests=requests, requested_at=AT), OLD, later=5 * 3600) == Due(("old",))


@pytest.mark.parametrize("names", [("old", "gone"), ()], ids=["readable claims", "no claims"])
def test_a_disruption_whose_record_cannot_be_read_is_undone(names: tuple[str, ...]) -> None:
    found = judged(Recorded(names, unreadable="attribute since has type S instead of N"), OLD)

    why = "the record of its disruption cannot be read: attribute since has type S instead of N"
    assert found == Undone(names[:1], why, failed=False)


def test_a_replacement_that_was_never_written_has_not_failed() -> None:
    found = judged(Recorded(replacements=("new",), written=False), OLD)

    assert found == Undone(("old",), "replacement new was not written", failed=False)


def test_only_nodes_that_still_have_the_mark_are_requested_again() -> None:
    """Something objected to the retirement of one of the two, which opened it."""
    requested = Recorded(("old", "open", "cleared"), requests=1, requested_at=AT)
    claims = (OLD, claim("open", marked=True), claim("cleared"))

    found = judged(requested, *claims, tainted=("old", "cleared"), later=RETIRED_WITHIN)

    assert found == Due(("old",))


def test_a_retirement_that_met_an_objection_ends_the_disruption() -> None:
    found = judged(Recorded(requests=1, requested_at=AT), OLD, tainted=())

    assert found == Undone(("old",), "the retirement was refused, and its taint was removed", failed=False)


@pytest.mark.parametrize(
    ("old", "tainted"),
    [(claim("old"), ("old",)), (OLD, ()), (claim("old"), ())],
    ids=["not looked at", "open", "neither"],
)
@pytest.mark.parametrize("replacements", [(), ("new",)])
def test_a_node_that_was_not_marked_completely_stays(
    old: NodeClaim, tainted: tuple[str, ...], replacements: tuple[str, ...]
) -> None:
    """The execution stopped before it had listed the pods again, or could not undo all of the mark."""
    found = judged(Recorded(replacements=replacements), old, claim("new"), tainted=tainted)

    assert found == Undone(("old",), "old was not marked completely", failed=False)


def test_a_condition_of_an_earlier_disruption_marks_no_node() -> None:
    found = judged(Recorded(since=AT + 1), OLD)

    assert found == Undone(("old",), "old was not marked completely", failed=False)
    assert judged(Recorded(since=AT + 1), as_disrupted(OLD, "Drifted", "", at=NOON + timedelta(seconds=1))) == Due(
        ("old",)
    )


def test_one_node_of_two_that_is_not_marked_keeps_both() -> None:
    found = judged(Recorded(("old", "other")), OLD, claim("other"), tainted=("old", "other"))

    assert found == Undone(("old", "other"), "other was not marked completely", failed=False)


def test_a_mark_can_be_removed_again() -> None:
    node = Node("n", taints=(Taint("dedicated", "NoSchedule", "db"),), resource_version="7")

    marked = mark_patch(node)

    dedicated = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    disrupted = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    assert marked == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [dedicated, disrupted]}}
    after = replace(node, taints=(*node.taints, Taint("karpenter.sh/disrupted", "NoSchedule")))
    assert mark_patch(after) is None
    undone = untaint_patch(after)
    assert undone is not None
    assert undone["spec"] == {"taints": [dedicated]}


def test_the_condition_of_a_disruption_is_removed_when_the_node_stays() -> None:
    marked = as_disrupted(claim("old"), "Underutilized", "saves $0.10/h", at=NOON)

    assert marked.conditions[DISRUPTION_REASON].reason == "Underutilized"
    assert as_kept(marked) == claim("old").with_condition("Initialized", "True", at=NOON)
    assert as_kept(claim("old")) is None


@pytest.mark.parametrize(
    ("disruption", "retirement"),
    [
        ("Drifted", RetirementReason.DRIFTED),
        ("Expired", RetirementReason.AGED),
        ("Rebalance", RetirementReason.RECOMMENDED),
        ("Underutilized", RetirementReason.CONSOLIDATED),
        ("Empty", RetirementReason.CONSOLIDATED),
    ],
)
def test_the_reason_of_a_disruption_decides_the_reason_of_the_retirement(
    disruption: str, retirement: RetirementReason
) -> None:
    assert retirement_reason(disruption) is retirement


def kube_pod(name: str, **spec: object) -> dict[str, object]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main"}], "nodeName": "node-1", **spec},
        "status": {"phase": "Running"},
    }


def test_a_pod_that_was_bound_before_the_taint_and_has_no_place_is_found() -> None:
    placed, late = kube_pod("placed"), kube_pod("late")

    assert find_unplaced_pod("node-1", [placed], ["default/placed"]) == ""
    assert find_unplaced_pod("node-1", [placed, late], ["default/placed"]) == (
        "pod default/late was bound to node node-1 meanwhile"
    )


def test_a_pod_that_ends_with_its_node_needs_no_place() -> None:
    daemon = kube_pod("daemon")
    daemon["metadata"] = {
        "name": "daemon",
        "namespace": "default",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        ],
    }

    assert find_unplaced_pod("node-1", [daemon], ()) == ""


def test_a_pod_that_cannot_be_read_has_no_place() -> None:
    wrong = kube_pod("wrong", containers=[{"name": "main", "resources": {"requests": {"cpu": "many"}}}])

    assert find_unplaced_pod("node-1", [wrong], ()).startswith("a pod on node node-1 cannot be read: ")
