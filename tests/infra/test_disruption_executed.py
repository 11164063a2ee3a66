"""Executed disruptions: the real definition on the local Step Functions, with functions that answer from a script."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.machine_functions import DISRUPTION, SCALE_UP_FUNCTIONS_OF_DISRUPTION
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
    SMOOTH,
    DisruptionMachines,
)
from tests.infra.scripted_machine import Answer, ScriptedAccount, scripted_account
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
MARKING = ["Mark nodes", "Are replacements needed?"]
LAUNCHING = ["Record node claims", "Launch instances", "Launch some groups", "Record launches"]
RELEASING = ["Release the lease", "Did it ring meanwhile?", "Are nodes marked?"]
SETTLING = ["Settle disruptions", "May nodes be retired?"]
ENDING = ["Give the turn back", "How did it end?", "Summarise"]
REPLACED = {**MARKED, "plan": "plans/x/2.json.gz", "replacements": 1}


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[DisruptionMachines]]:
    with scripted_account(
        DisruptionMachines, (*DISRUPTION, *SCALE_UP_FUNCTIONS_OF_DISRUPTION), SMOOTH, local_aws
    ) as made:
        local_aws.knob("faults/pace", factor=0.1)  # pods settle for 15 s in each execution
        try:
            yield made
        finally:
            local_aws.knob("faults/pace", factor=1)


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


def test_left_over_disruptions_are_settled_before_the_next_look(account: ScriptedAccount[DisruptionMachines]) -> None:
    machines = account.machines(propose_disruption=[NOTHING_TO_DO])

    execution = machines.start(unfinished=1)

    assert machines.summary(execution)["retired"] == 1
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert machines.states(execution) == [*BEGINNING, *retiring, *FIRST_LOOK, *ENDING]


@pytest.mark.parametrize("due", [True, False])
def test_an_execution_that_was_started_to_settle_proposes_only_what_is_due(
    account: ScriptedAccount[DisruptionMachines], due: bool
) -> None:
    machines = account.machines(propose_disruption=[NOTHING_TO_DO])

    execution = machines.start(unfinished=1, due=due)

    assert machines.summary(execution)["retired"] == 1
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert machines.states(execution) == [*BEGINNING, *retiring, *(FIRST_LOOK if due else ()), *ENDING]


def test_nothing_new_is_proposed_while_replacements_of_another_execution_boot(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    machines = account.machines(settle_disruptions=[{**SETTLED, "waiting": 1}])

    execution = machines.start(unfinished=1)

    assert machines.summary(execution)["waiting"] == 1
    assert machines.states(execution) == [*BEGINNING, *SETTLING, "Are replacements on their way?", *ENDING]


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
