"""Executed retirements: the real definition on the local Step Functions, with functions that answer from a script."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from infra.machine_functions import RETIREMENT
from infra.retirement_limits import EXPRESS_LIMITS
from joiner.adapters.payload import EXPRESS_SECONDS, Execution
from tests.infra.retirement_machines import SMOOTH, STAYS, RetirementMachines, begins, claim, entry, moves
from tests.infra.scripted_machine import Answer, ScriptedAccount, scripted_account
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

TO_THE_WAVES = ["Read the pause", "Is Joiner paused?", "Describe the cluster", "Retire", "Is it voluntary?"]
UNDER_THE_LEASE = ["Wait until it is due", "Take the lease", "Begin under the lease", "Release the lease"]
ONE_ROUND = [
    "What is the first step?",
    "Evict pods",
    "Is any node drained?",
    "Terminate instances",
    "Confirm termination",
    "Is any instance gone?",
    "Forget the nodes",
    "Is anything left?",
    "Summarise the wave",
]


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[RetirementMachines]]:
    with scripted_account(RetirementMachines, RETIREMENT, SMOOTH, local_aws) as made:
        yield made


def test_deleted_claims_are_retired_at_once_and_without_the_lease(account: ScriptedAccount[RetirementMachines]) -> None:
    machines = account.machines()

    execution = machines.start(claim("a"), claim("b"))

    assert machines.summary(execution) == {
        "refused": "",
        "retired": ["a", "b"],
        "waiting": [],
        "skipped": [],
        "failures": [],
    }
    around = [*TO_THE_WAVES, "Begin retirement", "What has begun?", "Retire wave by wave"]
    assert machines.states(execution) == [*around, *ONE_ROUND, "Summarise the group", "How did it end?", "Summarise"]
    assert machines.lease == {}
    assert machines.scale_ups == []
    heard = machines.calls["begin_retirement"][0]
    assert (heard["lease"], [each["claim"] for each in heard["claims"]]) == ({"number": 0}, ["a", "b"])
    assert (heard["schema"], heard["execution"]["id"], heard["noted"]) == (1, execution, False)
    assert machines.calls["evict_pods"][0]["pause"] == 1


@pytest.mark.parametrize(
    ("ahead", "waited"), [(0, 0.0), (2, 2.0), (60, 5.0)], ids=["now", "two seconds ahead", "too far ahead"]
)
def test_notes_of_interrupted_instances_are_read_from_the_second_of_the_request(
    account: ScriptedAccount[RetirementMachines], ahead: int, waited: float
) -> None:
    heard_at: list[float] = []

    def begins_noted(_machines: RetirementMachines, _event: Mapping[str, Any]) -> Answer:
        heard_at.append(time.time())
        return {"refused": "", "waves": [[entry("a")]], "begun": 1, "moving": 0, "later": 0, "skipped": []}

    machines, began = account.machines(begin_retirement=[begins_noted]), time.time()
    not_before = int(began) + ahead if ahead else 0

    execution = machines.start_for_notes(not_before)

    assert machines.summary(execution) == {
        "refused": "",
        "retired": ["a"],
        "waiting": [],
        "skipped": [],
        "failures": [],
    }
    around = [
        *TO_THE_WAVES,
        "Wait for interruption notices",
        "Begin retirement",
        "What has begun?",
        "Retire wave by wave",
    ]
    assert machines.states(execution) == [*around, *ONE_ROUND, "Summarise the group", "How did it end?", "Summarise"]
    [heard] = machines.calls["begin_retirement"]
    assert (heard["noted"], heard["claims"], heard["lease"]) == (True, [], {"number": 0})
    assert heard_at[0] >= min(not_before, began + 5)
    assert heard_at[0] - began < waited + 5
    assert machines.lease == {}


def test_more_interrupted_instances_than_one_execution_takes_start_the_next_one_at_once(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    def begins_part(_machines: RetirementMachines, event: Mapping[str, Any]) -> Answer:
        claim, over_limit = ("a", 1) if event["execution"]["id"] == first else ("b", 0)
        return {
            "refused": "",
            "waves": [[entry(claim)]],
            "begun": 1,
            "moving": 1,
            "later": 0,
            "overLimit": over_limit,
            "skipped": [],
        }

    first = ""
    machines = account.machines(begin_retirement=[begins_part])
    first = machines.start_for_notes(int(time.time()) + 2)

    assert machines.summary(first)["retired"] == ["a"]
    begun = ["What has begun?", "Retire the other interrupted nodes", "Ring for the pods", "Start a scale-up"]
    states = machines.states(first)
    assert states[states.index("What has begun?") :][:4] == begun
    [name] = sorted(set(machines.started(machines.arn)) - {"retire-1"})
    assert name.endswith("-interrupted")
    second = machines.arn.replace(":stateMachine:", ":execution:") + f":{name}"
    assert machines.summary(second)["retired"] == ["b"]
    assert [each["noted"] for each in machines.calls["begin_retirement"]] == [True, True]


def test_an_empty_node_begins_under_the_lease_when_it_is_due(account: ScriptedAccount[RetirementMachines]) -> None:
    machines, began = account.machines(), int(time.time())

    execution = machines.start(claim("a", "empty", began + 3))

    assert machines.summary(execution)["retired"] == ["a"]
    assert time.time() >= began + 3
    middle = ["What has begun?", "Retire wave by wave"]
    ending = ["Summarise the group", "How did it end?", "Summarise"]
    assert machines.states(execution) == [*TO_THE_WAVES, *UNDER_THE_LEASE, *middle, *ONE_ROUND, *ending]
    assert machines.calls["begin_retirement"][0]["lease"] == {"number": 1}
    assert "holder" not in machines.lease
    assert machines.scale_ups == []


def test_involuntary_retirements_do_not_wait_for_voluntary_ones(account: ScriptedAccount[RetirementMachines]) -> None:
    machines = account.machines()
    machines.hold_the_lease(until=9_999_999_999)

    execution = machines.start(claim("empty", "empty"), claim("lost", "lost"))
    eventually(
        lambda: [each["stage"] for call in machines.calls.get("forget_nodes", ()) for each in call["claims"]], 30
    )
    machines.hold_the_lease(until=1)

    assert sorted(machines.summary(execution)["retired"]) == ["empty", "lost"]
    assert [(each["lease"]["number"], each["claims"][0]["claim"]) for each in machines.calls["begin_retirement"]] == [
        (0, "lost"),
        (4, "empty"),
    ]


def test_an_instance_lost_before_its_launch_is_recorded_is_retired_seconds_later(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    left_out = [{"claim": "a", "why": "it may still be launched"}]
    too_early = {"refused": "", "waves": [], "begun": 0, "moving": 0, "later": 1, "skipped": left_out}
    machines = account.machines(begin_retirement=[too_early, begins()])

    assert machines.summary(machines.start(claim("a", "lost")))["retired"] == ["a"]
    assert len(machines.calls["begin_retirement"]) == 2


def test_evicted_pods_start_a_scale_up(account: ScriptedAccount[RetirementMachines]) -> None:
    machines = account.machines(begin_retirement=[begins(moving=3)])

    machines.summary(machines.start(claim("a")))

    assert machines.lease["rings"] == {"N": "1"}
    assert [name.endswith("-retire") for name in machines.scale_ups] == [True]


def test_a_ring_while_the_lease_is_held_starts_a_scale_up(account: ScriptedAccount[RetirementMachines]) -> None:
    def rings(machines: RetirementMachines, event: Mapping[str, Any]) -> Answer | str:
        machines.ring()
        line = begins()
        assert callable(line)
        return line(machines, event)

    machines = account.machines(begin_retirement=[rings])

    machines.summary(machines.start(claim("a", "empty")))

    assert len(machines.scale_ups) == 1
    assert "holder" not in machines.lease


def test_an_execution_that_lost_the_lease_begins_nothing(account: ScriptedAccount[RetirementMachines]) -> None:
    machines = account.machines(begin_retirement=["LeaseLost"])

    assert machines.summary(machines.start(claim("a", "empty"))) == {
        "refused": "",
        "retired": [],
        "waiting": [],
        "skipped": [{"claim": "a", "why": "the lease was taken"}],
        "failures": [],
    }
    assert len(machines.calls["begin_retirement"]) == 1


def test_a_failure_releases_the_lease_and_reports_what_failed(account: ScriptedAccount[RetirementMachines]) -> None:
    machines = account.machines(begin_retirement=["Broken"])

    ended = machines.end(machines.start(claim("a", "empty")))

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "as the script says" in ended["cause"]
    assert "holder" not in machines.lease


def test_a_failure_is_reported_although_another_execution_holds_the_lease_by_then(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    def loses_the_lease_and_breaks(machines: RetirementMachines, _event: Mapping[str, Any]) -> Answer | str:
        machines.hold_the_lease(until=9_999_999_999)
        return "Broken"

    machines = account.machines(begin_retirement=[loses_the_lease_and_breaks])

    ended = machines.end(machines.start(claim("a", "empty")))

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert machines.lease["holder"] == {"S": "arn"}


def test_a_retirement_ends_with_the_reason_while_karpenter_runs(account: ScriptedAccount[RetirementMachines]) -> None:
    left_out = [{"claim": "a", "why": "KarpenterRuns"}]
    refused = {"refused": "KarpenterRuns", "waves": [], "begun": 0, "moving": 0, "later": 0, "skipped": left_out}
    machines = account.machines(begin_retirement=[refused])

    execution = machines.start(claim("a"))

    assert machines.summary(execution) == {"refused": "KarpenterRuns"}
    assert machines.states(execution)[-1] == "Refused: Karpenter is running"
    assert "evict_pods" not in machines.calls


def test_while_joiner_is_paused_nothing_begins(account: ScriptedAccount[RetirementMachines]) -> None:
    machines = account.machines()
    machines.pause("true")

    execution = machines.start(claim("a"))

    assert machines.summary(execution) == {"paused": True}
    assert machines.states(execution) == ["Read the pause", "Is Joiner paused?", "Joiner is paused"]
    assert machines.calls == {}


def test_empty_nodes_are_retired_by_the_same_states_in_an_express_execution(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    machines = account.machines()

    ended = machines.ran_for_empty(claim("a", "empty"))

    assert (ended["status"], json.loads(ended["output"])["retired"]) == ("SUCCEEDED", ["a"])
    middle = ["What has begun?", "Retire wave by wave"]
    ending = ["Summarise the group", "How did it end?", "Summarise"]
    assert ended["states"] == [*TO_THE_WAVES, *UNDER_THE_LEASE, *middle, *ONE_ROUND, *ending]
    heard = machines.calls["begin_retirement"][0]["execution"]
    assert (
        Execution(heard["name"], heard["id"], heard["startTime"]).ends_by == int(ended["startDate"]) + EXPRESS_SECONDS
    )
    assert "holder" not in machines.lease


def test_an_express_execution_ends_before_aws_ends_it_and_reports_what_it_waited_for(
    account: ScriptedAccount[RetirementMachines], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetirementMachines, "limits_for_empty", replace(EXPRESS_LIMITS, last_round_after=0))
    machines = account.machines(confirm_termination=[STAYS])

    ended = machines.ran_for_empty(claim("a", "empty"))

    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "Waiting for blocked nodes")
    assert [each["claim"] for each in json.loads(ended["output"])["waiting"]] == ["a"]


def test_a_hundred_empty_nodes_are_one_execution_with_few_transitions(
    account: ScriptedAccount[RetirementMachines],
) -> None:
    """`begin_retirement` makes one wave of them. It needs a second look at their pods, because a pod may come until
    five seconds after the taint, and a second look at their instances.
    """

    def drains(_machines: RetirementMachines, event: Mapping[str, Any]) -> Answer:
        drained = [{**each, "stage": "drained"} for each in event["claims"]]
        return {"claims": event["claims"], "pause": 5} if event["round"] == 1 else {"claims": drained, "pause": 1}

    names = [f"n-{number:03}" for number in range(100)]
    gone = moves("terminating", "terminated")
    lines: Mapping[str, Any] = {"evict_pods": [drains], "confirm_termination": [STAYS, gone]}
    machines = account.machines(begin_retirement=[begins([entry(name) for name in names])], **lines)
    began = time.monotonic()

    ended = machines.ran_for_empty(*(claim(name, "empty") for name in names))

    assert (ended["status"], len(json.loads(ended["output"])["retired"])) == ("SUCCEEDED", 100)
    assert time.monotonic() - began < 60
    assert len(ended["states"]) <= 40
    print(f"100 empty nodes: {len(ended['states'])} transitions in {time.monotonic() - began:.0f} s")
