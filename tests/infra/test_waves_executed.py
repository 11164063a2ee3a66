"""Executed waves of a retirement: rounds, blocked nodes, failures and pauses."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from infra.retirement_workflow import FUNCTIONS
from infra.waits_and_limits import ROUNDS_BETWEEN_PAUSE_CHECKS, STANDARD_LIMITS
from joiner.names import pause_parameter
from tests.infra.retirement_world import SMOOTH, STAYS, RetirementMachines, begins, claim, entry, moves
from tests.infra.scripted import Answer, Line, ScriptedAccount, staged
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def stage(local_aws: RunningAws) -> Iterator[ScriptedAccount[RetirementMachines]]:
    with staged(RetirementMachines, FUNCTIONS, SMOOTH, local_aws) as made:
        yield made


def test_a_blocked_node_delays_no_other_node(stage: ScriptedAccount[RetirementMachines]) -> None:
    def only_b(_world: RetirementMachines, event: Mapping[str, Any]) -> Answer:
        drained = [{**each, "stage": "drained"} if each["claim"] == "b" else each for each in event["claims"]]
        return {"claims": drained, "pause": 1}

    last = SMOOTH["evict_pods"][0]
    world = stage.world(evict_pods=[only_b, STAYS, last])

    execution = world.start(claim("a"), claim("b"))

    assert world.summary(execution)["retired"] == ["a", "b"]
    first = [each["stage"] for each in world.calls["forget_nodes"][0]["claims"]]
    assert first == ["draining", "terminated"]
    assert [call["round"] for call in world.calls["evict_pods"]] == [1, 2, 3]
    assert world.states(execution).count("Wait") == 2


def test_instances_that_terminate_slowly_are_checked_again(stage: ScriptedAccount[RetirementMachines]) -> None:
    last = SMOOTH["confirm_termination"][0]
    world = stage.world(confirm_termination=[STAYS, last])

    execution = world.start(claim("a"))

    assert world.summary(execution)["retired"] == ["a"]
    states = world.states(execution)
    assert (states.count("Evict pods"), states.count("Terminate instances"), states.count("Confirm termination")) == (
        1,
        1,
        2,
    )


def test_a_wave_that_fails_stops_no_other_wave_and_is_reported(stage: ScriptedAccount[RetirementMachines]) -> None:
    def fails_for_a(_world: RetirementMachines, event: Mapping[str, Any]) -> Answer | str:
        line = moves("draining", "drained", pause=1)
        assert callable(line)
        return "Broken" if event["claims"][0]["claim"] == "a" else line(_world, event)

    world = stage.world(begin_retirement=[begins([entry("a")], [entry("b")])], evict_pods=[fails_for_a])

    execution = world.start(claim("a"), claim("b"))
    ended = world.end(execution)

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert world.states(execution).count("The wave failed") == 1
    assert [call["claims"][0]["claim"] for call in world.calls["forget_nodes"]] == ["b"]


def test_a_user_who_pauses_joiner_ends_a_drain_before_its_next_round(
    stage: ScriptedAccount[RetirementMachines],
) -> None:
    def is_paused(world: RetirementMachines, event: Mapping[str, Any]) -> Answer:
        world.pause("true")
        return {"claims": event["claims"], "pause": 5}

    world = stage.world(evict_pods=[is_paused])

    execution = world.start(claim("a"))

    assert world.summary(execution) == {"paused": True}
    assert len(world.calls["evict_pods"]) == 1
    paused = ["Wait longer", "Read the pause again", "Was Joiner paused meanwhile?", "The wave is paused"]
    assert world.states(execution)[-7:] == [*paused, "Summarise the group", "How did it end?", "Joiner is paused"]


def test_a_drain_with_short_pauses_reads_the_pause_parameter_in_every_fifth_round(
    stage: ScriptedAccount[RetirementMachines],
) -> None:
    world = stage.world(evict_pods=[*([STAYS] * ROUNDS_BETWEEN_PAUSE_CHECKS), SMOOTH["evict_pods"][0]])

    execution = world.start(claim("a"))

    assert world.summary(execution)["retired"] == ["a"]
    assert world.states(execution).count("Read the pause again") == 1


def test_a_deleted_pause_parameter_pauses_no_drain(stage: ScriptedAccount[RetirementMachines]) -> None:
    stays: Line = lambda _world, event: {"claims": event["claims"], "pause": 5}  # noqa: E731 - a line of the script
    world = stage.world(evict_pods=[stays, SMOOTH["evict_pods"][0]])
    stage.aws.client("ssm").delete_parameter(Name=pause_parameter(world.cluster))

    assert world.summary(world.start(claim("a")))["retired"] == ["a"]


def test_a_wave_ends_before_the_history_of_its_execution_is_full(
    stage: ScriptedAccount[RetirementMachines], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetirementMachines, "limits", replace(STANDARD_LIMITS, rounds=3))
    world = stage.world(evict_pods=[STAYS])

    execution = world.start(claim("a"))

    assert [each["claim"] for each in world.summary(execution)["waiting"]] == ["a"]
    assert len(world.calls["evict_pods"]) == 3
    assert world.states(execution)[-1] == "Waiting for blocked nodes"
