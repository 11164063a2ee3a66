"""Executed disruptions: the real definition on the local Step Functions, with functions that answer from a script."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from joiner.names import KARPENTER_RUNS
from tests.infra.disruption_machines import (
    BOOTING,
    FOUND,
    JOINED,
    MARKED,
    NOTHING_TO_DO,
    PROPOSED,
    REQUEST,
    SETTLED,
    DisruptionMachines,
    disruption_account,
)
from tests.infra.scripted_machine import Answer, Line, ScriptedAccount
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

BEGINNING = [
    "Read the pause",
    "Is Joiner paused?",
    "Describe the cluster",
    "Take the turn",
    "Is a disruption left over?",
]
FIRST_LOOK = [
    "Find candidates",
    "May nodes be disrupted?",
    "Resolve node classes",
    "Propose disruption",
    "Report candidates",
    "Is anything proposed?",
]
SECOND_LOOK = [
    "Let pods settle",
    "Take the lease",
    "Find candidates again",
    "May nodes still be disrupted?",
    "Validate disruption",
    "Is the proposal still valid?",
]
ALLOWED = ["Read the pause before the mark", "May nodes be marked?"]
MARKING = [*ALLOWED, "Mark nodes", "Read the pause after the mark", "Are replacements needed?"]
LAUNCHING = ["Record node claims", "Launch instances", "Launch some groups", "Record launches"]
RELEASING = ["Release the lease", "Did it ring meanwhile?", "Are nodes marked?"]
SETTLING = ["Settle disruptions", "May nodes be retired?"]
ENDING = ["Give the turn back", "How did it end?", "Summarise"]
REPLACED = {**MARKED, "plan": "plans/x/2.json.gz", "replacements": 1}
NOTHING_LAUNCHED = {"launched": 0, "short": 0, "failed": 0, "again": False, "later": False, "waiting": 0, "events": []}


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[DisruptionMachines]]:
    with disruption_account(local_aws) as made:
        yield made


def test_nodes_without_replacement_are_marked_and_retired(account: ScriptedAccount[DisruptionMachines]) -> None:
    machines = account.machines()

    execution = machines.start()

    summary = machines.summary(execution)
    assert (summary["retired"], summary["waiting"], summary["undone"]) == (1, 0, [])
    assert summary["marked"] == [{"reason": "Underutilized", "claims": ["a"]}]
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert machines.states(execution) == [
        *BEGINNING,
        *FIRST_LOOK,
        *SECOND_LOOK,
        *MARKING,
        *RELEASING,
        *retiring,
        *ENDING,
    ]
    assert machines.retired() == [[REQUEST]]
    first, second = machines.calls["propose_disruption"]
    assert (first["digest"], first.get("lease"), first["round"]) == ("abc", None, 1)
    assert (second["proposal"], second["lease"], second["round"]) == ("decisions/x/1.json.gz", {"number": 1}, 2)
    assert machines.calls["mark_nodes"][0]["lease"] == {"number": 1}


def test_replacements_are_initialized_before_the_retirement_starts(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    before: list[int] = []

    def settles(machines: DisruptionMachines, _event: Mapping[str, Any]) -> Answer:
        before.append(len(machines.calls.get("check_registration", ())))
        return {**SETTLED, "waiting": 1} if before[-1] < 2 else {**SETTLED, "retire": [REQUEST]}

    machines = account.machines(
        mark_nodes=[REPLACED], settle_disruptions=[settles], check_registration=[BOOTING, JOINED]
    )

    execution = machines.start()

    assert machines.summary(execution)["retired"] == 1
    awaiting = ["Are replacements on their way?", "Check registration", "Has a replacement joined?"]
    assert machines.states(execution) == [
        *BEGINNING,
        *FIRST_LOOK,
        *SECOND_LOOK,
        *MARKING,
        *LAUNCHING,
        *RELEASING,
        *SETTLING,
        *awaiting,
        "Await nodes",
        *awaiting[1:],
        *SETTLING,
        "Retire nodes",
        "Are replacements on their way?",
        *ENDING,
    ]
    assert before == [0, 2]
    assert [each["written"] for each in machines.calls["settle_disruptions"]] == [True, True]
    assert machines.calls["record_node_claims"][0]["plan"] == "plans/x/2.json.gz"
    assert machines.calls["check_registration"][0]["events"] == ["events/x/2-p"]


def test_a_replacement_without_capacity_is_undone_and_nothing_is_retired(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    undone = {"claims": ["a"], "why": "replacement b could not be launched"}
    machines = account.machines(mark_nodes=[REPLACED], settle_disruptions=[{**SETTLED, "undone": [undone]}])

    summary = machines.summary(machines.start())

    assert (summary["retired"], summary["undone"], machines.retired()) == (0, [undone], [])
    assert "check_registration" not in machines.calls


def test_a_cluster_where_nothing_is_proposed_is_not_locked(account: ScriptedAccount[DisruptionMachines]) -> None:
    machines = account.machines(propose_disruption=[NOTHING_TO_DO])

    execution = machines.start()

    assert machines.summary(execution)["retired"] == 0
    assert machines.states(execution) == [*BEGINNING, *FIRST_LOOK, *ENDING]
    assert machines.lease == {}


def test_an_action_that_the_second_proposal_does_not_confirm_is_dropped(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    machines = account.machines(propose_disruption=[PROPOSED, NOTHING_TO_DO])

    execution = machines.start()

    assert machines.summary(execution)["retired"] == 0
    assert machines.states(execution) == [*BEGINNING, *FIRST_LOOK, *SECOND_LOOK, *RELEASING, *ENDING]
    assert "mark_nodes" not in machines.calls


def test_a_ring_while_the_lease_is_held_starts_a_scale_up(account: ScriptedAccount[DisruptionMachines]) -> None:
    def rings(machines: DisruptionMachines, _event: Mapping[str, Any]) -> Answer:
        machines.ring()
        return MARKED

    machines = account.machines(mark_nodes=[rings])

    machines.summary(machines.start())

    assert [name.endswith("-disrupt") for name in machines.started(machines.scale_up_arn)] == [True]


def test_a_second_execution_ends_at_once(account: ScriptedAccount[DisruptionMachines]) -> None:
    machines = account.machines()
    machines.put("LEASE", "disrupt", holder="arn", disruptUntil=9_999_999_999)

    ended = machines.end(machines.start())

    assert (ended["status"], ended["output"]) == ("SUCCEEDED", '{"joined":true}')
    assert machines.calls == {}


@pytest.mark.parametrize(
    ("scripts", "end"),
    [
        ({"find_candidates": [{**FOUND, "refused": KARPENTER_RUNS, "why": KARPENTER_RUNS}]}, "refused"),
        ({"find_candidates": [{**FOUND, "why": "no node is initialized and stays"}]}, "why"),
    ],
)
def test_a_proposal_that_is_not_possible_gives_the_reason(
    account: ScriptedAccount[DisruptionMachines], scripts: Mapping[str, Any], end: str
) -> None:
    machines = account.machines(**scripts)

    summary = machines.summary(machines.start())

    assert summary[end] == scripts["find_candidates"][0][end]
    assert "propose_disruption" not in machines.calls


@pytest.mark.parametrize("name", ["find_candidates", "propose_disruption", "settle_disruptions"])
def test_a_function_that_fails_leaves_neither_the_turn_nor_the_lease(
    account: ScriptedAccount[DisruptionMachines], name: str
) -> None:
    machines = account.machines(**{name: ["Broken: as the script says"]})

    ended = machines.end(machines.start())

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "holder" not in machines.item("LEASE", "disrupt")
    assert "holder" not in machines.lease


def test_marked_nodes_of_a_failed_launch_are_left_to_the_next_execution(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    machines = account.machines(mark_nodes=[REPLACED], record_node_claims=["Broken: as the script says"])

    ended = machines.end(machines.start())

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert ("holder" in machines.lease, machines.retired()) == (False, [])


def test_a_lost_lease_marks_nothing_and_is_no_failure(account: ScriptedAccount[DisruptionMachines]) -> None:
    def loses(machines: DisruptionMachines, _event: Mapping[str, Any]) -> str:
        machines.put("LEASE", "scale-up", holder="another", leaseUntil=9_999_999_999, leaseNumber=2, rings=0)
        return "LeaseLost: another execution holds it"

    machines = account.machines(find_candidates=[FOUND, loses])

    ended = machines.end(machines.start())

    assert ended["status"] == "SUCCEEDED"
    assert (machines.lease["holder"], "mark_nodes" in machines.calls) == ({"S": "another"}, False)
    assert "holder" not in machines.item("LEASE", "disrupt")


def pausing(value: str, answer: Answer) -> Line:
    """Return a line at which a user pauses Joiner, or drains all nodes, before the function answers."""

    def line(machines: DisruptionMachines, _event: Mapping[str, Any]) -> Answer:
        machines.pause(value)
        return answer

    return line


@pytest.mark.parametrize("value", ["true", "drain"])
def test_no_node_is_marked_after_a_pause(account: ScriptedAccount[DisruptionMachines], value: str) -> None:
    """The pause comes while the second proposal is made."""
    machines = account.machines(propose_disruption=[PROPOSED, pausing(value, PROPOSED)])

    execution = machines.start()

    summary = machines.summary(execution)
    assert (summary["marked"], summary["retired"], summary["undone"]) == ([], 0, [])
    assert machines.states(execution) == [*BEGINNING, *FIRST_LOOK, *SECOND_LOOK, *ALLOWED, *RELEASING, *ENDING]
    assert "mark_nodes" not in machines.calls


@pytest.mark.parametrize("answer", [MARKED, REPLACED], ids=["removed", "replaced"])
def test_nodes_that_are_marked_during_a_pause_are_settled_at_once_and_nothing_is_recorded(
    account: ScriptedAccount[DisruptionMachines], answer: dict[str, Any]
) -> None:
    undone = {"claims": ["a"], "why": "Joiner is paused"}
    machines = account.machines(
        mark_nodes=[pausing("true", answer)], settle_disruptions=[{**SETTLED, "undone": [undone]}]
    )

    execution = machines.start()

    assert machines.summary(execution)["undone"] == [undone]
    assert [(each["written"], each["paused"]) for each in machines.calls["settle_disruptions"]] == [(False, True)]
    assert not {"record_node_claims", "launch_instances"} & machines.calls.keys()


def test_a_pause_between_the_claims_and_their_launch_is_settled_at_once(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    machines = account.machines(
        mark_nodes=[REPLACED],
        launch_instances=[{"paused": True}],
        record_launches=[{**NOTHING_LAUNCHED, "waiting": 0}],
        settle_disruptions=[{**SETTLED, "undone": [{"claims": ["a"], "why": "Joiner is paused"}]}],
    )

    execution = machines.start()

    assert len(machines.summary(execution)["undone"]) == 1
    assert [(each["written"], each["paused"]) for each in machines.calls["settle_disruptions"]] == [(True, True)]


def test_a_replacement_that_is_lost_is_settled_while_others_still_boot(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    """The claim of one of two is deleted; the other one boots, and joins later."""
    undone = {"claims": ["b"], "why": "replacement c was deleted"}
    waits = {**SETTLED, "waiting": 2}
    machines = account.machines(
        mark_nodes=[{**REPLACED, "replacements": 2}],
        record_launches=[{**NOTHING_LAUNCHED, "launched": 2, "waiting": 2}],
        settle_disruptions=[waits, {**waits, "waiting": 1, "undone": [undone]}, {**SETTLED, "retire": [REQUEST]}],
        check_registration=[{**BOOTING, "waiting": 2, "settling": 1}, {**BOOTING, "settling": 1}, BOOTING, JOINED],
    )

    execution = machines.start()

    summary = machines.summary(execution)
    assert (summary["undone"], summary["retired"]) == ([undone], 1)
    states = machines.states(execution)
    checks = [each for each in states if each in ("Check registration", "Settle disruptions")]
    assert checks == [
        "Settle disruptions",
        "Check registration",
        "Check registration",
        "Settle disruptions",
        "Check registration",
        "Check registration",
        "Settle disruptions",
    ]
