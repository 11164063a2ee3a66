"""Executed waves of a retirement: rounds, blocked nodes, failures and pauses."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from infra.machine_functions import RETIREMENT
from infra.retirement_limits import ROUNDS_BETWEEN_PAUSE_CHECKS, STANDARD_LIMITS
from joiner.names import pause_parameter
from tests.infra.retirement_machines import SMOOTH, STAYS, RetirementMachines, begins, claim, entry, moves
from tests.infra.scripted_machine import Answer, Line, ScriptedAccount, scripted_account
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[RetirementMachines]]:
    with scripted_account(RetirementMachines, RETIREMENT, SMOOTH, local_aws) as made:
        yield made


def test_a_blocked_node_delays_no_other_node(account: ScriptedAccount[RetirementMachines]) -> None:
    def only_b(_machines: RetirementMachines, event: Mapping[str, Any]) -> Answer:
        drained = [{**each, "stage": "drained"} if each["claim"] == "b" else each for each in event["claims"]]
        return {"claims": drained, "pause": 1}

    last = SMOOTH["evict_pods"][0]
    machines = account.machines(evict_pods=[only_b, STAYS, last])

    execution = machines.start(claim("a"), claim("b"))

    assert machines.summary(execution)["retired"] == ["a", "b"]
    first = [each["stage"] for each in machines.calls["forget_nodes"][0]["claims"]]
    assert first == ["draining", "terminated"]
    assert [call["round"] for call in machines.calls["evict_pods"]] == [1, 2, 3]
    assert machines.states(execution).count("Wait") == 2


def test_instances_that_terminate_slowly_are_checked_again(account: ScriptedAccount[RetirementMachines]) -> None:
    last = SMOOTH["confirm_termination"][0]
    machines = account.machines(confirm_termination=[STAYS, last])

    execution = machines.start(claim("a"))

    assert machines.summary(execution)["retired"] == ["a"]
    states = machines.states(execution)
    assert (states.count("Evict pods"), states.count("Terminate instances"), states.count("Confirm termination")) == (
        1,
        1,
        2,
    )


def test_a_wave_that_fails_stops_no_other_wave_and_is_reported(account: ScriptedAccount[RetirementMachines]) -> None:
    def fails_for_a(_machines: RetirementMachines, event: Mapping[str, Any]) -> Answer | str:
        line = moves("draining", "drained", pause=1)
        assert callable(line)
        return "Broken" if event["claims"][0]["claim"] == "a" else line(_machines, event)

    machines = account.machines(begin_retirement=[begins([entry("a")], [entry("b")])], evict_pods=[fails_for_a])

    execution = machines.start(claim("a"), claim("b"))
    ended = machines.end(execution)

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert machines.states(execution).count("The wave failed") == 1
    assert [call["claims"][0]["claim"] for call in machines.calls["forget_nodes"]] == ["b"]


def test_a_user_who_pauses_joiner_ends_a_drain_before_its_next_round(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    def is_paused(machines: RetirementMachines, event: Mapping[str, Any]) -> Answer:
        machines.pause("true")
        return {"claims": event["claims"], "pause": 5}

    machines = account.machines(evict_pods=[is_paused])

    execution = machines.start(claim("a"))

    assert machines.summary(execution) == {"paused": True}
    assert len(machines.calls["evict_pods"]) == 1
    paused = ["Wait longer", "Read the pause again", "Was Joiner paused meanwhile?", "The wave is paused"]
    assert machines.states(execution)[-7:] == [*paused, "Summarise the group", "How did it end?", "Joiner is paused"]


def test_a_drain_with_short_pauses_reads_the_pause_parameter_in_every_fifth_round(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    machines = account.machines(evict_pods=[*([STAYS] * ROUNDS_BETWEEN_PAUSE_CHECKS), SMOOTH["evict_pods"][0]])

    execution = machines.start(claim("a"))

    assert machines.summary(execution)["retired"] == ["a"]
    assert machines.states(execution).count("Read the pause again") == 1


def test_a_deleted_pause_parameter_pauses_no_drain(account: ScriptedAccount[RetirementMachines]) -> None:
    stays: Line = lambda _machines, event: {"claims": event["claims"], "pause": 5}  # noqa: E731 - a line of the script
    machines = account.machines(evict_pods=[stays, SMOOTH["evict_pods"][0]])
    account.aws.client("ssm").delete_parameter(Name=pause_parameter(machines.cluster))

    assert machines.summary(machines.start(claim("a")))["retired"] == ["a"]


def test_a_wave_ends_before_the_history_of_its_execution_is_full(
    account: ScriptedAccount[RetirementMachines], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetirementMachines, "limits", replace(STANDARD_LIMITS, rounds=3))
    machines = account.machines(evict_pods=[STAYS])

    execution = machines.start(claim("a"))

    assert [each["claim"] for each in machines.summary(execution)["waiting"]] == ["a"]
    assert len(machines.calls["evict_pods"]) == 3
    assert machines.states(execution)[-1] == "Waiting for blocked nodes"
