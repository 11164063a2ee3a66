"""Executed scale-ups: the real definition on the local Step Functions, with functions that answer from a script."""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.machine_functions import SCALE_UP
from joiner.names import FOREIGN_DEFINITIONS, KARPENTER_RUNS, pause_parameter
from tests.infra.scale_up_machine import (
    FOUND,
    JOINED,
    NOTHING,
    RECORDED,
    SMOOTH,
    TO_THE_END,
    UNDER_THE_LEASE,
    ScaleUpMachine,
    ringing,
)
from tests.infra.scripted_machine import Answer, ScriptedAccount, scripted_account
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[ScaleUpMachine]]:
    with scripted_account(ScaleUpMachine, SCALE_UP, SMOOTH, local_aws) as made:
        yield made


def test_a_scale_up_without_errors_enters_these_states_and_releases_the_lease(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    machines = account.machines()

    execution = machines.start()
    ended = machines.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert machines.states(execution) == [*UNDER_THE_LEASE, *TO_THE_END]
    assert "holder" not in machines.item("LEASE", "scale-up")
    assert machines.item("LEASE", "scale-up")["leaseNumber"] == {"N": "1"}
    summary = json.loads(ended["output"])
    assert (summary["pods"], summary["launched"], summary["rounds"], summary["nodes"]) == (3, 1, 1, [{"name": "n"}])
    call = machines.calls["launch_instances"][0]
    assert (call["schema"], call["round"], call["first"], call["count"]) == (1, 1, 0, 1)
    assert call["launches"] == "launches/x/1.json.gz"
    assert (call["lease"], call["execution"]["id"], call["execution"]["name"]) == ({"number": 1}, execution, "up-1")
    assert set(call["cluster"]) >= {"name", "endpoint", "certificateAuthority", "version", "serviceCidr"}


def test_a_batch_that_grows_is_looked_at_again_after_a_second(account: ScriptedAccount[ScaleUpMachine]) -> None:
    growing = {**NOTHING, "complete": False, "gathering": {"waited": 1, "pods": 44, "idle": 0}}
    machines = account.machines(find_pending_pods=[growing, FOUND])

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    start = UNDER_THE_LEASE.index("Find pending pods")
    searches = ["Find pending pods", "Is there anything to do?", "Let pods gather"]
    assert machines.states(execution)[start : start + 4] == [*searches, "Find pending pods"]
    asked = [(each["round"], each["gathering"]) for each in machines.calls["find_pending_pods"]]
    assert asked == [(1, {"waited": 0, "pods": 0, "idle": 0}), (1, growing["gathering"])]


def test_a_ring_while_the_lease_is_held_makes_the_same_execution_plan_again(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    machines = account.machines(find_pending_pods=[FOUND, NOTHING], record_launches=[ringing(RECORDED)])

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    again = ["May it plan again?", "Find pending pods", "Is there anything to do?"]
    assert machines.states(execution) == [*UNDER_THE_LEASE, *again, "Release the lease", *TO_THE_END]
    asked = [(each["round"], each["launched"]) for each in machines.calls["find_pending_pods"]]
    assert asked == [(1, False), (2, True)]


def test_pods_that_come_after_a_launch_are_planned_by_another_execution(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    """Also if their batch still grows. The nodes of this execution do not wait for it."""
    growing = {**FOUND, "complete": False, "gathering": {"waited": 2, "pods": 9, "idle": 0}}
    for later in (FOUND, growing):
        machines = account.machines(find_pending_pods=[FOUND, later, NOTHING], record_launches=[ringing(RECORDED)])

        execution = machines.start()

        assert machines.end(execution)["status"] == "SUCCEEDED"
        search = ["May it plan again?", "Find pending pods", "Is there anything to do?"]
        handed_over = ["Hand over", "Start the next scale-up", "Are nodes on their way?"]
        assert machines.states(execution) == [*UNDER_THE_LEASE, *search, *handed_over, *TO_THE_END]
        assert [name.endswith("-again") for name in machines.others(execution)] == [True]


def test_a_ring_before_anything_is_launched_makes_the_same_execution_plan_again(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    nothing_launched = {**RECORDED, "launched": 0, "waiting": 0}
    machines = account.machines(
        find_pending_pods=[FOUND, NOTHING], record_launches=[ringing(nothing_launched)], check_registration=[JOINED]
    )

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    again = ["May it plan again?", "Let pods gather", "Find pending pods", "Is there anything to do?"]
    assert machines.states(execution) == [*UNDER_THE_LEASE, *again, "Release the lease", *TO_THE_END]


def test_launched_nodes_do_not_wait_while_new_pods_keep_coming(account: ScriptedAccount[ScaleUpMachine]) -> None:
    calm = threading.Event()

    def keeps_coming(machines: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer:
        rings = int(machines.item("LEASE", "scale-up")["rings"]["N"])
        if not calm.is_set():
            machines.ring()
        return {**FOUND, "rings": rings}

    machines = account.machines(find_pending_pods=[keeps_coming])

    execution = machines.start()
    eventually(lambda: "Hand over" in machines.states(execution), 40)
    calm.set()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    assert machines.states(execution)[-6:] == [
        "Hand over",
        "Start the next scale-up",
        "Are nodes on their way?",
        *TO_THE_END,
    ]
    assert [name.endswith("-again") for name in machines.others(execution)] == [True]


def test_a_second_scale_up_joins_the_one_that_runs(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines()
    machines.put("LEASE", "scale-up", holder="arn", leaseUntil=9_999_999_999, leaseNumber=1, rings=1)

    execution = machines.start()

    assert json.loads(machines.end(execution)["output"]) == {"joined": True}
    assert machines.states(execution)[-3:] == ["Describe the cluster", "Take the lease", "Joined the running scale-up"]


def test_a_paused_scale_up_takes_no_lease_and_succeeds(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines()
    machines.pause("true")

    execution = machines.start()

    assert json.loads(machines.end(execution)["output"]) == {"paused": True}
    assert machines.states(execution) == ["Read the pause", "Is Joiner paused?", "Joiner is paused"]
    assert machines.calls == {}
    assert machines.item("LEASE", "scale-up") == {}


def test_a_deleted_pause_parameter_pauses_no_scale_up(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines(find_pending_pods=[NOTHING])
    account.aws.client("ssm").delete_parameter(Name=pause_parameter(machines.cluster))

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    assert machines.states(execution)[-1] == "Summarise"


def test_a_pause_while_claims_are_created_prevents_launches_and_a_second_plan(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    left = {**RECORDED, "launched": 0, "again": True}
    machines = account.machines(
        launch_instances=[{"paused": True}], record_launches=[left], check_registration=[JOINED]
    )

    execution = machines.start()
    ended = machines.end(execution)

    assert (ended["status"], json.loads(ended["output"])["paused"]) == ("SUCCEEDED", True)
    assert machines.states(execution).count("Plan capacity") == 1
    assert "holder" not in machines.item("LEASE", "scale-up")


@pytest.mark.parametrize(
    ("guard", "ending"),
    [
        (KARPENTER_RUNS, "Refused: Karpenter is running"),
        (FOREIGN_DEFINITIONS, "Refused: the definitions are not Joiner's"),
    ],
)
def test_a_scale_up_beside_another_autoscaler_releases_the_lease_and_names_the_autoscaler(
    account: ScriptedAccount[ScaleUpMachine], guard: str, ending: str
) -> None:
    machines = account.machines(find_pending_pods=[{**NOTHING, "refused": guard}])

    execution = machines.start()
    ended = machines.end(execution)

    assert (ended["status"], json.loads(ended["output"])) == ("SUCCEEDED", {"refused": guard})
    assert machines.states(execution)[-5:] == [
        "Find pending pods",
        "Is there anything to do?",
        "Give up the lease",
        "Why was it refused?",
        ending,
    ]
    assert "holder" not in machines.item("LEASE", "scale-up")
    assert set(machines.calls) == {"find_pending_pods"}


def test_pods_whose_reason_is_recorded_cause_no_plan(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines(find_pending_pods=[{**FOUND, "podsToPlan": 0}])

    execution = machines.start()

    assert json.loads(machines.end(execution)["output"])["pods"] == 3
    assert set(machines.calls) == {"find_pending_pods"}


def test_a_lease_that_ran_out_is_taken_under_the_next_number(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines(find_pending_pods=[NOTHING])
    machines.put("LEASE", "scale-up", holder="arn", leaseUntil=1, leaseNumber=7, rings=7)

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    assert machines.states(execution)[-2:] == ["Release the unused lease", "Summarise"]
    assert machines.calls["find_pending_pods"][0]["lease"] == {"number": 8}


def test_an_execution_that_lost_the_lease_writes_nothing_more_and_succeeds(
    account: ScriptedAccount[ScaleUpMachine],
) -> None:
    machines = account.machines(plan_capacity=["LeaseLost"])

    execution = machines.start()

    assert machines.end(execution)["status"] == "SUCCEEDED"
    assert machines.states(execution)[-3:] == ["Plan capacity", "Are nodes on their way?", "Summarise"]
    assert len(machines.calls["plan_capacity"]) == 1


def test_a_failure_releases_the_lease_and_reports_what_failed(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines(plan_capacity=["Broken"])

    execution = machines.start()
    ended = machines.end(execution)

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "as the script says" in ended["cause"]
    assert machines.states(execution)[-3:] == [
        "Release after a failure",
        "Did it ring meanwhile?",
        "The scale-up failed",
    ]
    assert "holder" not in machines.item("LEASE", "scale-up")
    assert machines.others(execution) == []


def test_a_ring_during_a_failed_execution_starts_another_execution(account: ScriptedAccount[ScaleUpMachine]) -> None:
    machines = account.machines(plan_capacity=[ringing("Broken"), "Broken"], find_pending_pods=[FOUND, NOTHING])

    execution = machines.start()

    assert machines.end(execution)["status"] == "FAILED"
    assert [name.endswith("-again") for name in machines.others(execution)] == [True]
