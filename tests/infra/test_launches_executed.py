"""Executed scale-ups whose launches are throttled, short, refused or concurrent, and their waits for nodes."""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.launch_limits import GROUPS_OF_CONCURRENT_INVOCATIONS, GROUPS_OF_ONE_INVOCATION
from infra.machine_functions import SCALE_UP
from tests.infra.scale_up_machine import (
    JOINED,
    LAUNCHED,
    RECORDED,
    SMOOTH,
    TO_THE_END,
    ScaleUpMachine,
)
from tests.infra.scripted_machine import Answer, ScriptedAccount, scripted_account
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

GROUPS = GROUPS_OF_ONE_INVOCATION + 1
BATCHES = [0, GROUPS_OF_CONCURRENT_INVOCATIONS, GROUPS_OF_ONE_INVOCATION]
"""The first group of each of its invocations."""


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[ScaleUpMachine]]:
    with scripted_account(ScaleUpMachine, SCALE_UP, SMOOTH, local_aws) as made:
        yield made


def waited(machines: ScaleUpMachine, execution: str) -> list[float]:
    """Return how long each *Back off after throttling* took, in seconds."""
    pages = machines.aws.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=execution)
    events = [each for page in pages for each in page["events"]]
    entered = [
        each["timestamp"]
        for each in events
        if each.get("stateEnteredEventDetails", {}).get("name") == "Back off after throttling"
    ]
    left = [
        each["timestamp"]
        for each in events
        if each.get("stateExitedEventDetails", {}).get("name") == "Back off after throttling"
    ]
    return [(end - start).total_seconds() for start, end in zip(entered, left, strict=True)]


def test_a_launch_that_ec2_throttled_is_planned_again_after_a_growing_wait(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    throttled = {**RECORDED, "launched": 0, "short": 1, "again": True, "later": True}
    machines = account.machines(record_launches=[throttled, throttled, RECORDED])

    execution = machines.start()
    ended = machines.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert machines.states(execution).count("Plan around them") == 2
    first, second = waited(machines, execution)
    assert 1 <= first < 3
    assert 2 <= second < 5
    assert "holder" not in machines.item("LEASE", "scale-up")


def test_launched_nodes_do_not_wait_for_the_backoff_after_throttling(account: ScriptedAccount[ScaleUpMachine]) -> None:
    """Ten seconds at most: the sweep finds the remaining pods."""
    throttled = {**RECORDED, "launched": 1, "short": 1, "again": True, "later": True}
    machines = account.machines(record_launches=[throttled])

    execution = machines.start()
    ended = machines.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    states = machines.states(execution)
    assert states[-3:] == TO_THE_END
    assert sum(waited(machines, execution)) < 30
    assert states.count("Back off after throttling") < 6


def test_a_shortage_of_offerings_leads_to_a_new_plan_at_once(account: ScriptedAccount[ScaleUpMachine]) -> None:
    short = {**RECORDED, "launched": 0, "short": 1, "again": True}
    machines = account.machines(record_launches=[short, RECORDED])

    execution = machines.start()
    summary = json.loads(machines.end(execution)["output"])

    assert "Plan around them" in machines.states(execution)
    assert (summary["launched"], summary["short"], summary["rounds"]) == (1, 1, 2)


def test_a_group_that_cannot_be_launched_stops_no_other(account: ScriptedAccount[ScaleUpMachine]) -> None:
    claims = {"launches": "launches/x/1.json.gz", "groups": list(range(GROUPS)), "claims": GROUPS}
    machines = account.machines(record_node_claims=[claims], launch_instances=["Broken"])

    execution = machines.start()

    ended = machines.end(execution)
    assert ended["status"] == "SUCCEEDED"
    assert json.loads(ended["output"])["failed"] == GROUPS
    states = machines.states(execution)
    assert (states.count("These groups were not launched"), states.count("Record launches")) == (len(BATCHES), 1)


def test_a_launch_that_cannot_be_sent_leads_to_the_record_of_the_others(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    machines = account.machines(launch_instances=["Broken"])

    execution = machines.start()

    ended = machines.end(execution)
    assert (ended["status"], json.loads(ended["output"])["failed"]) == ("SUCCEEDED", 1)
    assert "Record launches" in machines.states(execution)


SEVERAL_INVOCATIONS = {"launches": "launches/x/1.json.gz", "groups": list(range(GROUPS)), "claims": GROUPS} | {
    "postponed": 0,
    "events": ["planned"],
}
"""One group more than one invocation launches alone."""


def recording(machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
    """Record one launch each time; as the function does, read from the lease whether launches run."""
    ended = machines.lease.get("launchesEnded") == {"S": f"{event['lease']['number']}/{event['round']}"}
    return {**RECORDED, "launching": not ended, "events": [f"launched-{event.get('pass', 0)}"]}


def test_a_node_gets_its_pods_while_another_launch_runs(account: ScriptedAccount[ScaleUpMachine]) -> None:
    checked = threading.Event()
    order: list[str] = []

    def launch(_machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        if event["first"] == BATCHES[-1]:
            assert checked.wait(40), "no node was checked while the last launch ran"
        order.append(f"launched {event['first']}")
        return LAUNCHED

    def check(_machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        order.append("checked while launching" if event.get("launching") else "checked")
        checked.set()
        return {**JOINED, "done": not event.get("launching")}

    machines = account.machines(
        record_node_claims=[SEVERAL_INVOCATIONS],
        launch_instances=[launch],
        record_launches=[recording],
        check_registration=[check],
    )

    execution = machines.start()
    ended = machines.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert sorted(order[:2]) == ["launched 0", f"launched {BATCHES[1]}"]
    assert order[2:4] == ["checked while launching", f"launched {BATCHES[-1]}"]
    launches = machines.calls["launch_instances"]
    assert {(each["first"], each["count"], each["last"]) for each in launches} == {
        (0, 8, False),
        (8, 8, False),
        (16, 1, True),
    }
    assert order[-1] == "checked"
    first, *_, last = machines.calls["check_registration"]
    assert (first["launching"], first["wave"], first["events"]) == (True, "up-1", ["launched-1"])
    assert first["seconds"] < last.get("seconds", 60)
    assert last["events"][0] == "planned"
    written = [key for call in machines.calls["check_registration"] for key in call["events"]]
    assert sorted(written) == sorted(
        ["planned", *(f"launched-{call.get('pass', 0)}" for call in machines.calls["record_launches"])]
    )
    summary = json.loads(ended["output"])
    assert (summary["launched"], summary["failed"]) == (len(machines.calls["record_launches"]), 0)
    assert machines.lease["launchesEnded"] == {"S": "1/1"}
    assert "holder" not in machines.lease


def test_a_slow_launch_does_not_keep_later_groups_waiting(account: ScriptedAccount[ScaleUpMachine]) -> None:
    last = threading.Event()

    def launch(_machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        if event["first"] == BATCHES[-1]:
            last.set()
        assert event["first"] != 0 or last.wait(40), "the last groups waited for the first ones"
        return LAUNCHED

    machines = account.machines(
        record_node_claims=[SEVERAL_INVOCATIONS], launch_instances=[launch], record_launches=[recording]
    )

    execution = machines.start()

    ended = machines.end(execution)
    assert (ended["status"], json.loads(ended["output"])["failed"]) == ("SUCCEEDED", 0)
    assert last.is_set()


def test_a_failed_check_or_record_stops_no_launch_and_is_repeated_after_it(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    launched = threading.Event()

    def launch(_machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        if event["first"] == BATCHES[-1]:
            launched.wait(15)
        return LAUNCHED

    def record(machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer | str:
        if event.get("pass") == 2:
            launched.set()
            return "Broken"
        return recording(machines, event)

    def check(_machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer | str:
        return "Broken" if event.get("launching") else JOINED

    machines = account.machines(
        record_node_claims=[SEVERAL_INVOCATIONS],
        launch_instances=[launch],
        record_launches=[record],
        check_registration=[check],
    )

    execution = machines.start()
    ended = machines.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    summary = json.loads(ended["output"])
    assert (summary["launched"], summary["failed"]) == (2, 0)
    assert machines.states(execution)[-6:] == [
        "Record launches",
        "Did offerings turn out short?",
        "Release the lease",
        *TO_THE_END,
    ]
    assert set(machines.calls["check_registration"][-1]["events"]) == {"planned", "launched-1", "launched-0"}


def test_an_execution_that_loses_its_lease_during_several_launches_awaits_its_nodes(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    def launch(machines: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer | str:
        machines.put("LEASE", "scale-up", holder="another", leaseUntil=9_999_999_999, leaseNumber=9, rings=0)
        return "LeaseLost"

    machines = account.machines(
        record_node_claims=[SEVERAL_INVOCATIONS], launch_instances=[launch], record_launches=["LeaseLost"]
    )

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    states = machines.states(execution)
    assert "The lease is lost" in states
    assert states[-3:] == ["Record launches", "Are nodes on their way?", "Summarise"]
    assert machines.lease["holder"] == {"S": "another"}


def test_offerings_that_are_short_while_other_launches_run_are_planned_around(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    recorded = threading.Event()

    def launch(_machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        assert event["first"] != BATCHES[-1] or recorded.wait(40), "nothing was recorded while the last launch ran"
        return LAUNCHED

    def record(machines: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        first = event["round"] == 1 and event.get("pass") == 1
        if event.get("pass") == 2:
            recorded.set()
        return {**recording(machines, event), "launched": 0, "short": int(first), "again": first, "waiting": 0}

    machines = account.machines(
        record_node_claims=[SEVERAL_INVOCATIONS], launch_instances=[launch], record_launches=[record]
    )

    execution = machines.start()
    ended = machines.end(execution)

    assert ended["status"] == "SUCCEEDED"
    assert [each.get("pass") for each in machines.calls["record_launches"]][:3] in ([1, 2, None], [1, 2, 3])
    assert [each["round"] for each in machines.calls["plan_capacity"]] == [1, 2]
    assert json.loads(ended["output"])["short"] == 1


def test_a_wait_for_nodes_ends_by_an_earlier_ring_by_its_timeout_or_by_a_token(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    waiting = {**JOINED, "done": False, "waiting": 1}

    def ring_between_the_look_and_the_wait(machines: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer:
        machines.put("WAVE", "up-1", rings=1)
        return {**waiting, "rings": 0}

    slept: list[str] = []

    def look_after_a_sleep(machines: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer:
        slept.append(machines.item("WAVE", "up-1")["token"]["S"])
        return {**waiting, "rings": 1}

    sleeps = {**waiting, "rings": 1}
    machines = account.machines(
        check_registration=[ring_between_the_look_and_the_wait, sleeps, look_after_a_sleep, {**JOINED, "rings": 1}]
    )

    execution = machines.start()
    eventually(lambda: slept, 40)
    token = eventually(lambda: new if (new := machines.item("WAVE", "up-1")["token"]["S"]) not in slept else None)
    account.aws.client("stepfunctions").send_task_success(taskToken=token, output="{}")

    assert machines.end(execution)["status"] == "SUCCEEDED"
    states = machines.states(execution)
    assert states[-10:] == [
        "Await nodes",
        "Check registration",
        "Have all nodes joined?",
        "Await nodes",
        "Check registration",
        "Have all nodes joined?",
        "Await nodes",
        "Check registration",
        "Have all nodes joined?",
        "Summarise",
    ]
    assert [call["gather"] for call in machines.calls["check_registration"]] == [0, 0, 0, 0.3]  # after a ring


@pytest.mark.parametrize(("counted", "gather"), [("settling", 1), ("postponed", 0)])
def test_nodes_that_just_got_pods_or_got_no_time_are_checked_again_without_a_ring(
    account: ScriptedAccount[ScaleUpMachine], counted: str, gather: int
) -> None:
    due = {**JOINED, "done": False, "waiting": 2, counted: 1}
    machines = account.machines(check_registration=[due, due, JOINED])

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    look = ["Check registration", "Have all nodes joined?"]
    assert machines.states(execution)[-7:] == [*look, *look, *look, "Summarise"]
    assert [call["gather"] for call in machines.calls["check_registration"]] == [0, gather, gather]  # seconds
