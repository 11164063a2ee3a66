"""`joiner explain node`: what the stored proposals say about a node, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from joiner.adapters import documents
from joiner.adapters.payload import Execution, Task
from joiner.adapters.store import Store
from joiner.disruption.proposal import DisruptionAction, KeptNode, Proposal
from joiner_cli.node_decisions import DecisionBucket, NodeDecision, Outcomes, StoredProposals, find_decisions
from tests.unit.cli.command_runs import joiner
from tests.unit.cli.installed_account import BUCKET, InstalledAccount
from tests.unit.functions.disruption_execution import planned
from tests.unit.functions.small_account import CLUSTER

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:disrupt"
REMOVED = DisruptionAction("Underutilized", ("default-a",), moves={"web/a": "node-b"}, saving_per_hour=0.19)
STAYS = KeptNode("default-a", "node-a", "Unconsolidatable", "its pods fit nowhere else")
OTHER = KeptNode("default-b", "node-b", "DisruptionBlocked", "pod web/b must not be disrupted")


@dataclass
class FinishedExecutions:
    """Executions of DISRUPT by name, with what they ended with."""

    ended: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:
        machine, _, name = executionArn.rpartition(":")
        assert machine == MACHINE.replace("stateMachine", "execution")
        if name not in self.ended:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        return {"status": "SUCCEEDED", **self.ended[name]}


def looked(name: str, at: datetime, *proposals: Proposal) -> StoredProposals:
    return StoredProposals(name, at, proposals)


def decisions(name: str, *stored: StoredProposals, **ended: Mapping[str, Any]) -> tuple[NodeDecision, ...]:
    """Return the decisions of these executions, the newest first, about a node."""
    return find_decisions(name, stored, Outcomes(FinishedExecutions(ended), MACHINE)).decisions


def minutes(number: int) -> datetime:
    return NOON - timedelta(minutes=number)


@pytest.mark.parametrize("name", ["default-a", "node-a"])
def test_a_removed_node_has_its_reason_its_moves_and_the_outcome(name: str) -> None:
    chosen = Proposal((REMOVED,), kept=(OTHER,))

    found = decisions(
        name,
        looked("d-2", NOON, chosen, chosen),
        looked("d-1", minutes(5), Proposal(kept=(STAYS, OTHER))),
        **{"d-2": {"output": '{"marked": [{"reason": "Underutilized", "claims": ["default-a"]}]}'}},
    )

    assert [(one.chosen, one.message, one.moves, one.outcome) for one in found] == [
        (
            True,
            "Underutilized: removes 1 node, saves $0.19/h, moves 1 pod",
            ("web/a to node-b",),
            "executed: its nodes were marked for removal",
        ),
        (False, "its pods fit nowhere else (Unconsolidatable)", (), ""),
    ]


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        ({"output": '{"dropped": [{"claims": ["default-a"], "why": "x"}]}'}, "not executed: x"),
        (
            {
                "output": '{"marked": [{"claims": ["default-a"]}], '
                '"undone": [{"claims": ["default-a"], "why": "no capacity"}]}'
            },
            "undone: no capacity",
        ),
        ({"output": '{"why": "Joiner is paused", "marked": []}'}, "not executed: Joiner is paused"),
        ({"status": "RUNNING"}, "its execution is still running"),
        ({"status": "FAILED", "cause": "no lease"}, "its execution ended as FAILED: no lease"),
        (None, "its execution is gone: Step Functions keeps them for 90 days"),
    ],
)
def test_the_execution_tells_what_became_of_an_action(ended: Mapping[str, Any] | None, outcome: str) -> None:
    chosen = Proposal((REMOVED,))

    [found] = decisions("default-a", looked("d-1", NOON, chosen, chosen), **({"d-1": ended} if ended else {}))

    assert found.outcome == outcome


def test_an_action_that_the_second_proposal_does_not_repeat_is_not_executed() -> None:
    [found] = decisions("default-a", looked("d-1", NOON, Proposal((REMOVED,)), Proposal(kept=(STAYS,))))

    assert found.chosen
    assert found.outcome == "not executed: the second proposal, 15 seconds later, did not contain it"


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        ({"output": '{"why": "Joiner is paused"}'}, "not executed: Joiner is paused"),
        ({"output": '{"why": ""}'}, "not executed: the lease was not free, or the second look failed"),
        ({"output": '{"marked": [{"claims": ["default-a"]}]}'}, "executed: its nodes were marked for removal"),
    ],
)
def test_an_execution_whose_second_proposal_is_not_there_tells_what_it_did(
    ended: Mapping[str, Any], outcome: str
) -> None:
    """It ended before, or one of its proposals cannot be read."""
    [found] = decisions("default-a", looked("d-1", NOON, Proposal((REMOVED,))), **{"d-1": ended})

    assert found.outcome == outcome


def test_what_a_later_execution_undid_is_undone() -> None:
    chosen, stays = Proposal((REMOVED,)), Proposal(kept=(OTHER,))

    [found] = decisions(
        "default-a",
        looked("d-3", NOON, stays, stays),
        looked("d-2", minutes(1), stays, stays),
        looked("d-1", minutes(2), chosen, chosen),
        **{
            "d-3": {"output": '{"undone": [{"claims": ["default-a"], "why": "its replacement did not join"}]}'},
            "d-2": {"status": "RUNNING"},
            "d-1": {"output": '{"marked": [{"claims": ["default-a"]}]}'},
        },
    )

    assert found.outcome == "undone: its replacement did not join"


def test_the_same_reason_to_stay_is_shown_once_with_its_times() -> None:
    stays, blocked = Proposal(kept=(STAYS,)), Proposal(kept=(KeptNode("default-a", "node-a", "Unconsolidatable", "x"),))

    found = decisions("node-a", *(looked(f"d-{at}", minutes(at), stays if at != 3 else blocked) for at in range(6)))

    assert [(one.at, one.until, one.looks) for one in found] == [
        (minutes(2), NOON, 3),
        (minutes(3), minutes(3), 1),
        (minutes(5), minutes(4), 2),
    ]
    assert found[0].to_lines() == [
        "2026-11-30T11:58:00Z to 2026-11-30T12:00:00Z, 3 times: stays: its pods fit nowhere else (Unconsolidatable)"
    ]


def test_many_moves_are_cut_in_text_and_a_replacement_is_named_by_its_type() -> None:
    moves = {f"web/{at}": "n1" for at in range(7)}
    action = DisruptionAction("Drifted", ("default-a",), (planned("n1"),), moves, -0.02)

    [found] = decisions("default-a", looked("d-1", NOON, Proposal((action,))))

    assert len(found.moves) == 7 and found.moves[0] == f"web/0 to a new {planned('n1').instance_type}"
    assert found.to_lines()[1].endswith(" and 2 more")


def store(account: InstalledAccount, execution: str, *proposals: Proposal) -> None:
    for number, proposal in enumerate(proposals):
        task = Task(Execution(execution, "", ""), CLUSTER, 0, number)
        documents.put_proposal(Store(account.s3, BUCKET), task, proposal)


def test_the_command_reads_the_bucket_and_the_execution(account: InstalledAccount) -> None:
    store(account, "d-1", Proposal((REMOVED,)), Proposal((REMOVED,), kept=(OTHER,)))
    account.states.start_execution(stateMachineArn=account.disrupt, name="d-1")

    table = joiner("explain", "node", "default-a", "--cluster", "prod")
    found = joiner("explain", "node", "default-a", "--cluster", "prod", "-o", "json").json

    assert (table.exit_code, table.err) == (0, "")
    first, decision, moves, outcome = table.out.splitlines()
    assert first == "NodeClaim default-a"
    assert decision.endswith(": chosen by d-1: Underutilized: removes 1 node, saves $0.19/h, moves 1 pod")
    assert moves == "  its action moves web/a to node-b"
    assert outcome == "  its execution is still running"
    assert (found["nodeClaims"], [one["execution"] for one in found["decisions"]]) == (["default-a"], ["d-1"])


def test_every_page_of_the_bucket_is_read(account: InstalledAccount) -> None:
    store(account, "d-1", Proposal(kept=(STAYS,)))
    for number in range(1001):
        account.s3.put_object(Bucket=BUCKET, Key=f"decisions/a-{number:04}/0.json.gz", Body=b"")

    answer = joiner("explain", "node", "node-a", "--cluster", "prod", "-o", "yaml")

    assert answer.exit_code == 0
    assert [one["looks"] for one in yaml.safe_load(answer.out)["decisions"]] == [1]
    assert answer.err.startswith("warning: 1001 proposals in the bucket joiner-prod-decisions cannot be read")


def test_proposals_that_are_older_are_left_out(account: InstalledAccount) -> None:
    store(account, "d-1", Proposal(kept=(STAYS,)), Proposal(kept=(STAYS,)))
    bucket = DecisionBucket(account.s3, BUCKET)

    (one,) = bucket.read_since(datetime.now(UTC) - timedelta(hours=1))

    assert (one.execution, len(one.proposals)) == ("d-1", 2)
    assert bucket.read_since(datetime.now(UTC) + timedelta(hours=1)) == []


def test_a_node_without_decisions_has_exit_code_2(account: InstalledAccount) -> None:
    store(account, "d-1", Proposal(kept=(STAYS,)))

    answer = joiner("explain", "node", "node-x", "--cluster", "prod")

    assert (answer.exit_code, answer.out) == (2, "")
    assert "none of the 1 proposals of the last 24 hours names node-x" in answer.err


def test_a_bucket_that_is_gone_is_an_error(account: InstalledAccount) -> None:
    account.s3.delete_bucket(Bucket=BUCKET)
    try:
        answer = joiner("explain", "node", "node-a", "--cluster", "prod")
    finally:
        account.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})

    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err.startswith("joiner: An error occurred (NoSuchBucket)") and answer.err.count("\n") == 1
