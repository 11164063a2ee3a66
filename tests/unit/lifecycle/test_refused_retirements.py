"""Which retirements DISRUPT or the sweep asked for do not begin: annotations against disruption are read once more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from joiner.cluster import Node, Pod
from joiner.cluster.taints import DISRUPTED_TAINT
from joiner.lifecycle.retirement import RetirementContext, RetirementReason, find_objection, is_voluntary
from joiner.pools import NodeClaim, NodeClassRef
from joiner.pools.disruption_protection import find_protection

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
REF = NodeClassRef("EC2NodeClass", "default")
LAUNCHED = NodeClaim("a", REF, pool="default", provider_id="aws:///us-east-1a/i-a", created=NOON)
CLAIM = LAUNCHED.with_condition("Initialized", "True", at=NOON)
CHOSEN = CLAIM.with_condition("DisruptionReason", "True", "Expired", at=NOON)
LIMITED = replace(CHOSEN, termination_grace_period=600)
OPEN = Node("node-a", provider_id=CLAIM.provider_id, ready=True)
NODE = replace(OPEN, taints=(DISRUPTED_TAINT,))
JOB = Pod("shop", "job", node_name="node-a", phase="Running", owner_kind="Job", started="2026-11-21T11:00:00Z")
FOR_FOUR_HOURS = replace(JOB, protection="4h")
ANNOTATION = "karpenter.sh/do-not-disrupt"
HELD = f"pod shop/job has the annotation {ANNOTATION}"


def objection(
    reason: RetirementReason, pod: Pod, *, claim: NodeClaim = CHOSEN, node: Node | None = NODE, hours: float = 0
) -> str:
    return find_objection(reason, claim, node, RetirementContext(NOON + timedelta(hours=hours), pods=(pod,)))


@pytest.mark.parametrize("reason", [RetirementReason.CONSOLIDATED, RetirementReason.DRIFTED])
def test_a_duration_on_a_pod_holds_the_node_until_it_is_over(reason: RetirementReason) -> None:
    assert objection(reason, FOR_FOUR_HOURS, hours=2.9) == f"{HELD} until 2026-11-21T15:00:00Z"
    assert objection(reason, FOR_FOUR_HOURS, hours=3) == ""
    assert objection(reason, replace(JOB, protection="true"), hours=99) == HELD
    assert objection(reason, replace(JOB, protection="true"), hours=99) == HELD
    assert objection(reason, replace(JOB, protection="later")) == ""


@pytest.mark.parametrize("lasts", ["3.5h", "3h29m59.5s.5s", "12600000ms", "+210m", "12600s"])
def test_a_duration_on_a_pod_is_what_go_parses(lasts: str) -> None:
    job = replace(JOB, protection=lasts)

    assert objection(RetirementReason.CONSOLIDATED, job, hours=2.499).startswith(HELD)
    assert objection(RetirementReason.CONSOLIDATED, job, hours=2.5) == ""


@pytest.mark.parametrize("lasts", ["-4h", "0", "0s", "2d", "4", "4 h", "h", ".h", "99999999h", f"{'9' * 5000}h"])
def test_a_duration_that_go_does_not_parse_or_that_is_not_positive_holds_no_node(lasts: str) -> None:
    assert objection(RetirementReason.CONSOLIDATED, replace(JOB, protection=lasts)) == ""


@pytest.mark.parametrize(
    "pod",
    [
        replace(FOR_FOUR_HOURS, node_name="node-b"),
        replace(FOR_FOUR_HOURS, phase="Succeeded"),
        replace(FOR_FOUR_HOURS, deletion="2026-11-21T12:00:00Z"),
        replace(FOR_FOUR_HOURS, owner_kind="DaemonSet"),
        replace(FOR_FOUR_HOURS, owner_kind="Node"),
    ],
    ids=["on another node", "finished", "terminating", "of a daemon set", "static"],
)
def test_these_pods_hold_no_node(pod: Pod) -> None:
    assert objection(RetirementReason.CONSOLIDATED, pod) == ""


@pytest.mark.parametrize(
    ("reason", "claim", "objects"),
    [
        (RetirementReason.CONSOLIDATED, LIMITED, True),
        (RetirementReason.DRIFTED, CHOSEN, True),
        (RetirementReason.DRIFTED, LIMITED, False),
        (RetirementReason.AGED, CHOSEN, True),
        (RetirementReason.AGED, LIMITED, False),
    ],
)
def test_only_the_replacement_of_an_outdated_node_with_a_termination_grace_period_ignores_pods(
    reason: RetirementReason, claim: NodeClaim, *, objects: bool
) -> None:
    kept = replace(NODE, annotations={ANNOTATION: "true"})

    assert objection(reason, FOR_FOUR_HOURS, claim=claim) == (f"{HELD} until 2026-11-21T15:00:00Z" if objects else "")
    assert objection(reason, JOB, claim=claim, node=kept) == f"the node has the annotation {ANNOTATION}"


def test_an_expired_node_is_retired_at_any_rate_unless_its_claim_is_a_machine() -> None:
    expired = RetirementReason.EXPIRED

    assert [is_voluntary(expired, one) for one in (CLAIM, CHOSEN, replace(CLAIM, kind="Machine"))] == [
        False,
        False,
        True,
    ]
    assert objection(expired, FOR_FOUR_HOURS, claim=CLAIM, node=OPEN) == ""


@pytest.mark.parametrize(
    "reason",
    [
        RetirementReason.CONSOLIDATED,
        RetirementReason.DRIFTED,
        RetirementReason.AGED,
        RetirementReason.RECOMMENDED,
    ],
)
def test_a_disruption_that_was_undone_is_no_reason_any_more(reason: RetirementReason) -> None:
    over = "its node has no mark of a disruption any more"

    assert is_voluntary(reason, CLAIM), "it needs the lease"
    assert objection(reason, JOB) == objection(reason, JOB, node=None) == ""
    assert objection(reason, JOB, claim=CLAIM) == objection(reason, JOB, node=OPEN) == over
    assert objection(reason, JOB, claim=CLAIM, node=None) == over
    assert objection(reason, JOB, claim=replace(CLAIM, deletion=NOON), node=OPEN) == "", "nothing can be undone"


def test_a_pod_that_has_not_started_has_all_of_its_duration_left() -> None:
    assert find_protection(replace(FOR_FOUR_HOURS, started=""), NOON) == f"{HELD} until 2026-11-21T16:00:00Z"
