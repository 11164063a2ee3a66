"""Executed disruptions that others began, and the turn of an execution whose replacements take long."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.infra.disruption_machines import (
    BOOTING,
    JOINED,
    NOTHING_TO_DO,
    REQUEST,
    SETTLED,
    DisruptionMachines,
    disruption_account,
)
from tests.infra.scripted_machine import Answer, ScriptedAccount
from tests.infra.test_disruption_executed import BEGINNING, ENDING, FIRST_LOOK, REPLACED, SETTLING
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[DisruptionMachines]]:
    with disruption_account(local_aws) as made:
        yield made


def test_left_over_disruptions_are_settled_before_the_next_look(account: ScriptedAccount[DisruptionMachines]) -> None:
    machines = account.machines(propose_disruption=[NOTHING_TO_DO])

    execution = machines.start(left=["arn:1", ""])

    assert machines.summary(execution)["retired"] == 1
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert machines.states(execution) == [*BEGINNING, *retiring, *FIRST_LOOK, *ENDING]
    assert [each["left"] for each in machines.calls["settle_disruptions"]] == [["arn:1", ""]]


def test_conditions_that_no_disruption_has_left_are_removed(account: ScriptedAccount[DisruptionMachines]) -> None:
    machines = account.machines(settle_disruptions=[SETTLED])

    execution = machines.start(stale=1, due=False)

    machines.summary(execution)
    assert machines.states(execution) == [*BEGINNING, *SETTLING, "Are replacements on their way?", *ENDING]
    assert [each["left"] for each in machines.calls["settle_disruptions"]] == [[]]


@pytest.mark.parametrize("due", [True, False])
def test_an_execution_that_was_started_to_settle_proposes_only_what_is_due(
    account: ScriptedAccount[DisruptionMachines], due: bool
) -> None:
    machines = account.machines(propose_disruption=[NOTHING_TO_DO])

    execution = machines.start(left=["arn:1"], due=due)

    assert machines.summary(execution)["retired"] == 1
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert machines.states(execution) == [*BEGINNING, *retiring, *(FIRST_LOOK if due else ()), *ENDING]


def test_replacements_of_an_ended_execution_that_still_boot_stop_no_proposal(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    machines = account.machines(settle_disruptions=[{**SETTLED, "waiting": 1}], propose_disruption=[NOTHING_TO_DO])

    execution = machines.start(left=["arn:1"])

    assert machines.summary(execution)["waiting"] == 1
    assert machines.states(execution) == [
        *BEGINNING,
        *SETTLING,
        "Are replacements on their way?",
        *FIRST_LOOK,
        *ENDING,
    ]


def test_replacements_that_take_long_let_another_execution_disrupt_nodes(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    holders: list[str] = []

    def another_begins(machines: DisruptionMachines, _event: Mapping[str, Any]) -> Answer:
        holders.append(machines.item("LEASE", "disrupt").get("holder", {}).get("S", ""))
        machines.put("LEASE", "disrupt", holder="another", disruptUntil=9_999_999_999)
        return JOINED

    waiting, due = {**SETTLED, "waiting": 1}, {**SETTLED, "retire": [REQUEST]}
    machines = account.machines(
        mark_nodes=[REPLACED],
        settle_disruptions=[SETTLED, waiting, due],
        check_registration=[BOOTING, another_begins],
    )
    machines.await_alone_for(0)

    execution = machines.start(left=["arn:1"])

    ended = machines.end(execution)
    assert (ended["status"], machines.retired(), holders) == ("SUCCEEDED", [[REQUEST]], [""])
    assert [each["left"] for each in machines.calls["settle_disruptions"]] == [["arn:1"], ["arn:1"], []]
    assert machines.item("LEASE", "disrupt")["holder"] == {"S": "another"}
    states = machines.states(execution)
    assert states[states.index("Check registration") :] == [
        "Check registration",
        "Has a replacement joined?",
        "Let others disrupt nodes",
        "Has a replacement joined?",
        "Await nodes",
        "Check registration",
        "Has a replacement joined?",
        *SETTLING,
        "Retire nodes",
        "Are replacements on their way?",
        *ENDING[1:],
    ]


def test_a_turn_that_is_gone_when_it_is_given_back_is_not_held_any_more(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    """The answer of the update was lost, and another execution took the turn."""

    def another_has_it(machines: DisruptionMachines, _event: Mapping[str, Any]) -> Answer:
        machines.put("LEASE", "disrupt", holder="another", disruptUntil=9_999_999_999)
        return BOOTING

    machines = account.machines(
        mark_nodes=[REPLACED],
        settle_disruptions=[{**SETTLED, "waiting": 1}, {**SETTLED, "retire": [REQUEST]}],
        check_registration=[another_has_it, JOINED],
    )
    machines.await_alone_for(0)

    execution = machines.start()

    assert (machines.end(execution)["status"], machines.retired()) == ("SUCCEEDED", [[REQUEST]])
    states = machines.states(execution)
    assert states.count("Let others disrupt nodes") == 1
    assert "Give the turn back" not in states
    assert machines.item("LEASE", "disrupt")["holder"] == {"S": "another"}


def test_an_execution_without_anything_left_or_due_proposes_nothing(
    account: ScriptedAccount[DisruptionMachines],
) -> None:
    machines = account.machines()

    execution = machines.start(due=False)

    machines.summary(execution)
    assert machines.states(execution) == [*BEGINNING, *ENDING]
