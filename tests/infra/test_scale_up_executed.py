"""Executed scale-ups: the real definition on the local Step Functions, with functions that answer from a script."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from infra.machine_parts import MachineParts
from infra.scale_up_states import scale_up_definition
from infra.scale_up_workflow import FUNCTIONS
from infra.service_integrations import ServiceIntegrations
from joiner.names import FOREIGN_DEFINITIONS, KARPENTER_RUNS, pause_parameter
from tests.infra.scripted import Answer, Line, Scripted, ScriptedAccount, staged
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

FOUND = {
    "refused": "",
    "complete": True,
    "gathering": {"waited": 1, "pods": 3, "idle": 0},
    "snapshot": "snapshots/x/1.json.gz",
    "pods": 3,
    "podsToPlan": 3,
    "unfinished": 0,
    "unwatched": 0,
}
NOTHING = {**FOUND, "pods": 0, "podsToPlan": 0}
PLANNED = {
    "plan": "plans/x/1.json.gz",
    "nodes": 1,
    "pods": 3,
    "pricePerHour": 0.1,
    "lowerBoundPerHour": 0.1,
    "gap": 0.0,
    "pendingReasons": [],
}
LAUNCHED = {"launched": 1, "short": 0, "failed": 0, "errors": []}
RECORDED = {
    "launched": 1,
    "short": 0,
    "failed": 0,
    "again": False,
    "later": False,
    "throttled": False,
    "launching": False,
    "waiting": 1,
    "pricePerHour": 0.1,
}
JOINED = {
    "rings": 0,
    "done": True,
    "waiting": 0,
    "settling": 0,
    "podsPlaced": 3,
    "placedAsPlanned": 1,
    "nodes": [{"name": "n"}],
    "failed": [],
}

SMOOTH: Mapping[str, Sequence[Line]] = {
    "find_pending_pods": [FOUND],
    "resolve_node_classes": [{"classes": "node-classes/x/1.json.gz", "ready": 1, "refused": 0}],
    "plan_capacity": [PLANNED],
    "record_node_claims": [{"launches": "launches/x/1.json.gz", "groups": [0], "claims": 1, "postponed": 0}],
    "launch_instances": [LAUNCHED],
    "record_launches": [RECORDED],
    "check_registration": [JOINED],
}
UNDER_THE_LEASE = [
    "Read the pause",
    "Is Joiner paused?",
    "Describe the cluster",
    "Take the lease",
    "Find pending pods",
    "Is there anything to do?",
    "Resolve node classes",
    "Plan capacity",
    "Record node claims",
    "Are there several launches?",
    "Launch one group",
    "Record launches",
    "Did offerings turn out short?",
    "Release the lease",
]
TO_THE_END = ["Check registration", "Have all nodes joined?", "Summarise"]


class ScaleUpMachine(Scripted):
    """The machine and the table of one cluster, and the inputs of its functions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scripts = {
            **self.scripts,
            "find_pending_pods": [noting_rings(line) for line in self.scripts["find_pending_pods"]],
        }
        parts = MachineParts(
            integrations=ServiceIntegrations("aws"), cluster=self.cluster, table=self.table, functions=self.functions
        )
        self.arn = self.machine("scale-up", scale_up_definition(parts))

    def start(self, name: str = "up-1") -> str:
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name=name, input="{}"
        )["executionArn"]
        return execution

    def others(self, execution: str) -> list[str]:
        """Return the executions that another execution started."""
        listed = self.aws.client("stepfunctions").list_executions(stateMachineArn=self.arn)["executions"]
        return [each["name"] for each in listed if each["executionArn"] != execution]


@pytest.fixture(scope="module")
def stage(local_aws: RunningAws) -> Iterator[ScriptedAccount[ScaleUpMachine]]:
    with staged(ScaleUpMachine, FUNCTIONS, SMOOTH, local_aws) as made:
        yield made


def noting_rings(line: Line) -> Line:
    """Return a line that adds the rings, as functions that read pods do; a line with an effect adds them itself."""
    return (lambda world, _event: {**line, "rings": world.rings()}) if isinstance(line, Mapping) else line


def ringing(then: Answer | str) -> Line:
    """Return a line that rings the doorbell while the function runs."""

    def line(world: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer | str:
        world.ring()
        return then

    return line


def test_a_scale_up_without_errors_enters_these_states_and_releases_the_lease(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    world = stage.world()

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert world.states(execution) == [*UNDER_THE_LEASE, *TO_THE_END]
    assert "holder" not in world.item("LEASE", "scale-up")
    assert world.item("LEASE", "scale-up")["leaseNumber"] == {"N": "1"}
    summary = json.loads(ended["output"])
    assert (summary["pods"], summary["launched"], summary["rounds"], summary["nodes"]) == (3, 1, 1, [{"name": "n"}])
    call = world.calls["launch_instances"][0]
    assert (call["schema"], call["round"], call["index"], call["launches"]) == (1, 1, 0, "launches/x/1.json.gz")
    assert (call["lease"], call["execution"]["id"], call["execution"]["name"]) == ({"number": 1}, execution, "up-1")
    assert set(call["cluster"]) >= {"name", "endpoint", "certificateAuthority", "version", "serviceCidr"}


def test_a_batch_that_grows_is_looked_at_again_after_a_second(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    growing = {**NOTHING, "complete": False, "gathering": {"waited": 1, "pods": 44, "idle": 0}}
    world = stage.world(find_pending_pods=[growing, FOUND])

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    start = UNDER_THE_LEASE.index("Find pending pods")
    searches = ["Find pending pods", "Is there anything to do?", "Let pods gather"]
    assert world.states(execution)[start : start + 4] == [*searches, "Find pending pods"]
    asked = [(each["round"], each["gathering"]) for each in world.calls["find_pending_pods"]]
    assert asked == [(1, {"waited": 0, "pods": 0, "idle": 0}), (1, growing["gathering"])]


def test_a_ring_while_the_lease_is_held_makes_the_same_execution_plan_again(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    world = stage.world(find_pending_pods=[FOUND, NOTHING], record_launches=[ringing(RECORDED)])

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    again = ["May it plan again?", "Find pending pods", "Is there anything to do?"]
    assert world.states(execution) == [*UNDER_THE_LEASE, *again, "Release the lease", *TO_THE_END]
    assert [each["round"] for each in world.calls["find_pending_pods"]] == [1, 2]


def test_pods_that_come_after_a_launch_are_planned_by_another_execution(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    """Also if their batch still grows. The nodes of this execution do not wait for it."""
    growing = {**FOUND, "complete": False, "gathering": {"waited": 2, "pods": 9, "idle": 0}}
    for later in (FOUND, growing):
        world = stage.world(find_pending_pods=[FOUND, later, NOTHING], record_launches=[ringing(RECORDED)])

        execution = world.start()

        assert world.end(execution)["status"] == "SUCCEEDED"
        search = ["May it plan again?", "Find pending pods", "Is there anything to do?"]
        handed_over = ["Hand over", "Start the next scale-up", "Are nodes on their way?"]
        assert world.states(execution) == [*UNDER_THE_LEASE, *search, *handed_over, *TO_THE_END]
        assert [name.endswith("-again") for name in world.others(execution)] == [True]


def test_a_ring_before_anything_is_launched_makes_the_same_execution_plan_again(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    nothing_launched = {**RECORDED, "launched": 0, "waiting": 0}
    world = stage.world(
        find_pending_pods=[FOUND, NOTHING], record_launches=[ringing(nothing_launched)], check_registration=[JOINED]
    )

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    again = ["May it plan again?", "Let pods gather", "Find pending pods", "Is there anything to do?"]
    assert world.states(execution) == [*UNDER_THE_LEASE, *again, "Release the lease", *TO_THE_END]


def test_launched_nodes_do_not_wait_while_new_pods_keep_coming(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    calm = threading.Event()

    def keeps_coming(world: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer:
        rings = int(world.item("LEASE", "scale-up")["rings"]["N"])
        if not calm.is_set():
            world.ring()
        return {**FOUND, "rings": rings}

    world = stage.world(find_pending_pods=[keeps_coming])

    execution = world.start()
    eventually(lambda: "Hand over" in world.states(execution), 40)
    calm.set()

    assert world.end(execution)["status"] == "SUCCEEDED"
    assert world.states(execution)[-6:] == [
        "Hand over",
        "Start the next scale-up",
        "Are nodes on their way?",
        *TO_THE_END,
    ]
    assert [name.endswith("-again") for name in world.others(execution)] == [True]


def test_a_second_scale_up_joins_the_one_that_runs(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world()
    world.put("LEASE", "scale-up", holder="arn", leaseUntil=9_999_999_999, leaseNumber=1, rings=1)

    execution = world.start()

    assert json.loads(world.end(execution)["output"]) == {"joined": True}
    assert world.states(execution)[-3:] == ["Describe the cluster", "Take the lease", "Joined the running scale-up"]


def test_a_paused_scale_up_takes_no_lease_and_succeeds(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world()
    world.pause("true")

    execution = world.start()

    assert json.loads(world.end(execution)["output"]) == {"paused": True}
    assert world.states(execution) == ["Read the pause", "Is Joiner paused?", "Joiner is paused"]
    assert world.calls == {}
    assert world.item("LEASE", "scale-up") == {}


def test_a_deleted_pause_parameter_pauses_no_scale_up(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world(find_pending_pods=[NOTHING])
    stage.aws.client("ssm").delete_parameter(Name=pause_parameter(world.cluster))

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    assert world.states(execution)[-1] == "Summarise"


def test_a_pause_while_claims_are_created_prevents_launches_and_a_second_plan(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    left = {**RECORDED, "launched": 0, "again": True}
    world = stage.world(launch_instances=[{"paused": True}], record_launches=[left], check_registration=[JOINED])

    execution = world.start()
    ended = world.end(execution)

    assert (ended["status"], json.loads(ended["output"])["paused"]) == ("SUCCEEDED", True)
    assert world.states(execution).count("Plan capacity") == 1
    assert "holder" not in world.item("LEASE", "scale-up")


@pytest.mark.parametrize(
    ("guard", "ending"),
    [
        (KARPENTER_RUNS, "Refused: Karpenter is running"),
        (FOREIGN_DEFINITIONS, "Refused: the definitions are not Joiner's"),
    ],
)
def test_a_scale_up_beside_another_autoscaler_releases_the_lease_and_names_the_autoscaler(
    stage: ScriptedAccount[ScaleUpMachine], guard: str, ending: str
) -> None:
    world = stage.world(find_pending_pods=[{**NOTHING, "refused": guard}])

    execution = world.start()
    ended = world.end(execution)

    assert (ended["status"], json.loads(ended["output"])) == ("SUCCEEDED", {"refused": guard})
    assert world.states(execution)[-5:] == [
        "Find pending pods",
        "Is there anything to do?",
        "Give up the lease",
        "Why was it refused?",
        ending,
    ]
    assert "holder" not in world.item("LEASE", "scale-up")
    assert set(world.calls) == {"find_pending_pods"}


def test_pods_whose_reason_is_recorded_cause_no_plan(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world(find_pending_pods=[{**FOUND, "podsToPlan": 0}])

    execution = world.start()

    assert json.loads(world.end(execution)["output"])["pods"] == 3
    assert set(world.calls) == {"find_pending_pods"}


def test_a_lease_that_ran_out_is_taken_under_the_next_number(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world(find_pending_pods=[NOTHING])
    world.put("LEASE", "scale-up", holder="arn", leaseUntil=1, leaseNumber=7, rings=7)

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    assert world.states(execution)[-2:] == ["Release the unused lease", "Summarise"]
    assert world.calls["find_pending_pods"][0]["lease"] == {"number": 8}


def test_an_execution_that_lost_the_lease_writes_nothing_more_and_succeeds(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    world = stage.world(plan_capacity=["LeaseLost"])

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    assert world.states(execution)[-3:] == ["Plan capacity", "Are nodes on their way?", "Summarise"]
    assert len(world.calls["plan_capacity"]) == 1


def test_a_failure_releases_the_lease_and_reports_what_failed(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world(plan_capacity=["Broken"])

    execution = world.start()
    ended = world.end(execution)

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "as the script says" in ended["cause"]
    assert world.states(execution)[-3:] == ["Release after a failure", "Did it ring meanwhile?", "The scale-up failed"]
    assert "holder" not in world.item("LEASE", "scale-up")
    assert world.others(execution) == []


def test_a_ring_during_a_failed_execution_starts_another_execution(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world(plan_capacity=[ringing("Broken"), "Broken"], find_pending_pods=[FOUND, NOTHING])

    execution = world.start()

    assert world.end(execution)["status"] == "FAILED"
    assert [name.endswith("-again") for name in world.others(execution)] == [True]


def waited(world: ScaleUpMachine, execution: str) -> list[float]:
    """Return how long each *Back off after throttling* took, in seconds."""
    pages = world.aws.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=execution)
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
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    throttled = {**RECORDED, "launched": 0, "short": 1, "again": True, "later": True}
    world = stage.world(record_launches=[throttled, throttled, RECORDED])

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert world.states(execution).count("Plan around them") == 2
    first, second = waited(world, execution)
    assert 1 <= first < 3
    assert 2 <= second < 5
    assert "holder" not in world.item("LEASE", "scale-up")


def test_launched_nodes_do_not_wait_for_the_backoff_after_throttling(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    """Ten seconds at most: the sweep finds the remaining pods."""
    throttled = {**RECORDED, "launched": 1, "short": 1, "again": True, "later": True}
    world = stage.world(record_launches=[throttled])

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    states = world.states(execution)
    assert states[-3:] == TO_THE_END
    assert sum(waited(world, execution)) < 30
    assert states.count("Back off after throttling") < 6


def test_a_shortage_of_offerings_leads_to_a_new_plan_at_once(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    short = {**RECORDED, "launched": 0, "short": 1, "again": True}
    world = stage.world(record_launches=[short, RECORDED])

    execution = world.start()
    summary = json.loads(world.end(execution)["output"])

    assert "Plan around them" in world.states(execution)
    assert (summary["launched"], summary["short"], summary["rounds"]) == (1, 1, 2)


def test_a_group_that_cannot_be_launched_stops_no_other(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    claims = {"launches": "launches/x/1.json.gz", "groups": [0, 1], "claims": 2}
    world = stage.world(record_node_claims=[claims], launch_instances=["Broken"])

    execution = world.start()

    ended = world.end(execution)
    assert ended["status"] == "SUCCEEDED"
    assert json.loads(ended["output"])["failed"] == 2
    states = world.states(execution)
    assert (states.count("This group was not launched"), states.count("Record launches")) == (2, 1)


def test_a_launch_that_cannot_be_sent_leads_to_the_record_of_the_others(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    world = stage.world(launch_instances=["Broken"])

    execution = world.start()

    ended = world.end(execution)
    assert (ended["status"], json.loads(ended["output"])["failed"]) == ("SUCCEEDED", 1)
    assert "Record launches" in world.states(execution)


TWO_GROUPS = {"launches": "launches/x/1.json.gz", "groups": [0, 1], "claims": 2, "postponed": 0, "events": ["planned"]}


def recording(world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
    """Record one launch each time; as the function does, read from the lease whether launches run."""
    ended = world.lease.get("launchesEnded") == {"S": f"{event['lease']['number']}/{event['round']}"}
    return {**RECORDED, "launching": not ended, "events": [f"launched-{event.get('pass', 0)}"]}


def test_a_node_gets_its_pods_while_another_launch_runs(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    checked = threading.Event()
    order: list[str] = []

    def launch(_world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        if event["index"] == 1:
            assert checked.wait(40), "no node was checked while the second launch ran"
        order.append(f"launched {event['index']}")
        return LAUNCHED

    def check(_world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        order.append("checked while launching" if event.get("launching") else "checked")
        checked.set()
        return {**JOINED, "done": not event.get("launching")}

    world = stage.world(
        record_node_claims=[TWO_GROUPS],
        launch_instances=[launch],
        record_launches=[recording],
        check_registration=[check],
    )

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert order[:3] == ["launched 0", "checked while launching", "launched 1"]
    assert order[-1] == "checked"
    first, *_, last = world.calls["check_registration"]
    assert (first["launching"], first["wave"], first["events"]) == (True, "up-1", ["launched-1"])
    assert first["seconds"] < last.get("seconds", 60)
    assert last["events"][0] == "planned"
    written = [key for call in world.calls["check_registration"] for key in call["events"]]
    assert sorted(written) == sorted(
        ["planned", *(f"launched-{call.get('pass', 0)}" for call in world.calls["record_launches"])]
    )
    summary = json.loads(ended["output"])
    assert (summary["launched"], summary["failed"]) == (len(world.calls["record_launches"]), 0)
    assert world.lease["launchesEnded"] == {"S": "1/1"}
    assert "holder" not in world.lease


def test_a_failed_check_or_record_stops_no_launch_and_is_repeated_after_it(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    launched = threading.Event()

    def launch(_world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        if event["index"] == 1:
            launched.wait(15)
        return LAUNCHED

    def record(world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer | str:
        if event.get("pass") == 2:
            launched.set()
            return "Broken"
        return recording(world, event)

    def check(_world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer | str:
        return "Broken" if event.get("launching") else JOINED

    world = stage.world(
        record_node_claims=[TWO_GROUPS],
        launch_instances=[launch],
        record_launches=[record],
        check_registration=[check],
    )

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    summary = json.loads(ended["output"])
    assert (summary["launched"], summary["failed"]) == (2, 0)
    assert world.states(execution)[-6:] == [
        "Record launches",
        "Did offerings turn out short?",
        "Release the lease",
        *TO_THE_END,
    ]
    assert set(world.calls["check_registration"][-1]["events"]) == {"planned", "launched-1", "launched-0"}


def test_an_execution_that_loses_its_lease_during_several_launches_awaits_its_nodes(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    def launch(world: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer | str:
        world.put("LEASE", "scale-up", holder="another", leaseUntil=9_999_999_999, leaseNumber=9, rings=0)
        return "LeaseLost"

    world = stage.world(record_node_claims=[TWO_GROUPS], launch_instances=[launch], record_launches=["LeaseLost"])

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    states = world.states(execution)
    assert "The lease is lost" in states
    assert states[-3:] == ["Record launches", "Are nodes on their way?", "Summarise"]
    assert world.lease["holder"] == {"S": "another"}


def test_offerings_that_are_short_while_other_launches_run_are_planned_around(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    recorded = threading.Event()

    def launch(_world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        assert event["index"] == 0 or recorded.wait(40), "nothing was recorded while the second launch ran"
        return LAUNCHED

    def record(world: ScaleUpMachine, event: Mapping[str, Any]) -> Answer:
        first = event["round"] == 1 and event.get("pass") == 1
        recorded.set()
        return {**recording(world, event), "launched": 0, "short": int(first), "again": first, "waiting": 0}

    world = stage.world(record_node_claims=[TWO_GROUPS], launch_instances=[launch], record_launches=[record])

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED"
    assert [each.get("pass") for each in world.calls["record_launches"]][:3] in ([1, 2, None], [1, 2, 3])
    assert [each["round"] for each in world.calls["plan_capacity"]] == [1, 2]
    assert json.loads(ended["output"])["short"] == 1


def test_a_wait_for_nodes_ends_by_an_earlier_ring_by_its_timeout_or_by_a_token(
    stage: ScriptedAccount[ScaleUpMachine],
) -> None:
    waiting = {**JOINED, "done": False, "waiting": 1}

    def ring_between_the_look_and_the_wait(world: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer:
        world.put("WAVE", "up-1", rings=1)
        return {**waiting, "rings": 0}

    slept: list[str] = []

    def look_after_a_sleep(world: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer:
        slept.append(world.item("WAVE", "up-1")["token"]["S"])
        return {**waiting, "rings": 1}

    sleeps = {**waiting, "rings": 1}
    world = stage.world(
        check_registration=[ring_between_the_look_and_the_wait, sleeps, look_after_a_sleep, {**JOINED, "rings": 1}]
    )

    execution = world.start()
    eventually(lambda: slept, 40)
    token = eventually(lambda: new if (new := world.item("WAVE", "up-1")["token"]["S"]) not in slept else None)
    stage.aws.client("stepfunctions").send_task_success(taskToken=token, output="{}")

    assert world.end(execution)["status"] == "SUCCEEDED"
    states = world.states(execution)
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
    assert [call["gather"] for call in world.calls["check_registration"]] == [0, 0, 0, 0.3]  # one node waits


def test_nodes_that_just_got_pods_are_checked_again_without_a_ring(stage: ScriptedAccount[ScaleUpMachine]) -> None:
    settles = {**JOINED, "done": False, "waiting": 2, "settling": 1}
    world = stage.world(check_registration=[settles, settles, JOINED])

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    look = ["Check registration", "Have all nodes joined?"]
    assert world.states(execution)[-7:] == [*look, *look, *look, "Summarise"]
    assert [call["gather"] for call in world.calls["check_registration"]] == [0, 1, 1]  # seconds
