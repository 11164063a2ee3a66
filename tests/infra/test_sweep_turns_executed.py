"""One sweep runs at a time: the real definition on the local Step Functions, with sweeps that overlap."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.service_integrations import ServiceIntegrations
from infra.states_language import state_machine, succeed_state
from infra.sweep_turn_states import SweepTurnStates
from tests.infra.scripted_machine import Scripted, ScriptedAccount
from tests.infra.sweep_machine import NOTHING_SEEN, Swept, sweep_account
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[Scripted]]:
    with sweep_account(local_aws) as made:
        yield made


def test_a_sweep_that_starts_while_another_runs_runs_after_it(account: ScriptedAccount[Scripted]) -> None:
    looks: list[tuple[str, float, float]] = []

    def look(machines: Scripted, event: Mapping[str, Any]) -> Mapping[str, Any]:
        began = time.monotonic()
        if len(machines.calls["survey_cluster"]) == 1:
            _start(swept, "second", after=0)
            time.sleep(3)
        looks.append((event["execution"]["name"], began, time.monotonic()))
        return NOTHING_SEEN

    swept = Swept(account, survey_cluster=[look])
    _start(swept, "first")
    ends = _ends(swept, 2)

    assert {name: end["status"] for name, end in ends.items()} == {"first": "SUCCEEDED", "second": "SUCCEEDED"}
    (first, _, first_ended), (second, second_began, _) = looks
    assert (first, second) == ("first", "second")
    assert second_began >= first_ended
    assert "holder" not in swept.machines.item("LEASE", "sweep")


def test_a_third_sweep_ends_because_another_one_waits(account: ScriptedAccount[Scripted]) -> None:
    def look(machines: Scripted, _event: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(machines.calls["survey_cluster"]) == 1:
            _start(swept, "second")
            eventually(lambda: "waiting" in machines.item("LEASE", "sweep"), 20)
            _start(swept, "third")
            eventually(lambda: _executions(swept).get("third", {}).get("status") == "SUCCEEDED", 20)
        return NOTHING_SEEN

    swept = Swept(account, survey_cluster=[look])
    _start(swept, "first")
    ends = _ends(swept, 3)

    assert {name: end["states"][-1] for name, end in ends.items()} == {
        "first": "Nothing is due",
        "second": "Nothing is due",
        "third": "The next sweep sees it",
    }
    assert [each["execution"]["name"] for each in swept.machines.calls["survey_cluster"]] == ["first", "second"]


def test_the_turn_of_a_sweep_that_died_ends_with_its_time_limit(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account)
    swept.machines.put("LEASE", "sweep", holder="arn:of-the-dead", sweepUntil=int(time.time()) + 3, readsAt=1)
    began = time.monotonic()
    ended = swept.run()

    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "Nothing is due")
    assert time.monotonic() - began > 2
    assert swept.machines.item("LEASE", "sweep")["readsAt"] == {"N": "1"}  # kept: it is the doorbell's


@pytest.mark.parametrize("how", ["refused", "timed out", "answer lost"])
def test_a_sweep_that_fails_to_take_the_turn_leaves_it_free(how: str, account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account)
    machine = swept.arn.rpartition(":")[2]
    tries = 4  # the first attempt and three retries; the update that releases the turn is not affected
    strike = {"caller": machine, "call": "dynamodb UpdateItem LEASE", "nth": 1, "how": how, "times": tries}
    swept.machines.aws.knob("faults/set", **strike)
    swept.machines.aws.knob("faults/pace", factor=0.05)
    try:
        ended = swept.machines.ran_express(swept.arn, {})
    finally:
        struck = swept.machines.aws.knob("faults/set")["struck"]
        swept.machines.aws.knob("faults/pace", factor=1)

    assert struck == tries
    assert ended["status"] == "FAILED"
    assert ended["states"][-1] == "The sweep failed"
    assert "survey_cluster" not in swept.machines.calls
    assert "holder" not in swept.machines.item("LEASE", "sweep")


def test_a_sweep_that_waits_too_long_fails_so_that_the_alarm_counts_it(account: ScriptedAccount[Scripted]) -> None:
    machines = account.machines()
    turn = SweepTurnStates(ServiceIntegrations("aws"), machines.table, seconds=240, attempts=1)
    states = {
        "Begin": {"Type": "Pass", "Assign": {"waits": 0}, "Next": "Take the turn"},
        **turn.take(next="Looks", catch=[]),
        "Looks": succeed_state(),
    }
    machines.put("LEASE", "sweep", holder="arn:of-another", sweepUntil=int(time.time()) + 240)
    ended = machines.ran_express(
        machines.machine("sweep", state_machine(states, comment="takes its turn", timeout=60), kind="EXPRESS"), {}
    )

    assert (ended["status"], ended["error"]) == ("FAILED", "SweepIsRunning")
    assert "Looks" not in ended["states"]


def test_a_turn_that_was_taken_over_stays_with_the_other_sweep(account: ScriptedAccount[Scripted]) -> None:
    def look(machines: Scripted, _event: Mapping[str, Any]) -> Mapping[str, Any]:
        machines.put("LEASE", "sweep", holder="arn:of-another", sweepUntil=int(time.time()) + 240)
        return NOTHING_SEEN

    swept = Swept(account, survey_cluster=[look])
    ended = swept.machines.ran_express(swept.arn, {})

    assert ended["status"] == "SUCCEEDED"
    assert swept.machines.item("LEASE", "sweep")["holder"] == {"S": "arn:of-another"}


def _start(swept: Swept, name: str, **page: int) -> None:
    swept.machines.aws.client("stepfunctions").start_execution(
        stateMachineArn=swept.arn, name=name, input=json.dumps(page)
    )


def _executions(swept: Swept) -> dict[str, Any]:
    executions = swept.machines.aws.knob("express-executions", stateMachineArn=swept.arn)["executions"]
    return {each["name"]: each for each in executions}


def _ends(swept: Swept, count: int) -> dict[str, Any]:
    """Return the ended executions by name, once there are this many; `states` are those that each entered."""

    def look() -> dict[str, Any] | None:
        executions = _executions(swept)
        return (
            executions
            if len(executions) == count and all(each["status"] != "RUNNING" for each in executions.values())
            else None
        )

    client, ended = swept.machines.aws, eventually(look, 60)
    executions = (
        client.knob("express-executions", stateMachineArn=swept.arn, executionArn=each["executionArn"])
        for each in ended.values()
    )
    return {
        each["name"]: {**each, "states": _entered(each["events"])} for page in executions for each in page["executions"]
    }


def _entered(events: list[Any]) -> list[str]:
    return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]
