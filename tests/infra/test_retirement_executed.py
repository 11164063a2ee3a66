"""RETIRE as it runs: the real definition on the local Step Functions, with functions that answer from a script."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from infra import retirement_states
from infra.retirement import FUNCTIONS
from infra.retirement_states import LOOKS, LOOKS_UNASKED, RetirementParts, retire
from infra.states import Callee, Integrations, machine, succeed
from joiner.names import pause_parameter
from tests.local.conftest import started_server
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

ACTOR = """
import json, os, urllib.request

def handler(event, context):
    said = json.load(urllib.request.urlopen(os.environ["PROMPTER"], data=json.dumps(event).encode(), timeout=60))
    if "raises" in said:
        raise type(said["raises"], (Exception,), {})("as the script says")
    return said["answer"]
"""

Answer = Mapping[str, Any]
Line = Answer | str | Callable[["World", Mapping[str, Any]], Answer | str]
"""What a function answers, or the name of what it raises; or what happens in the world while it runs, and then one of these."""

TO_THE_WAVES = ["Read the pause", "Is Joiner paused?", "Describe the cluster", "Retire", "Read the group", "Is it voluntary?"]
UNDER_THE_LEASE = ["Wait until it is due", "Take the lease", "Begin retirement", "Is the lease held?", "Release the lease"]
ONE_ROUND = [
    "Read the wave",
    "Where is there work?",
    "Evict pods",
    "Is any node drained?",
    "Terminate instances",
    "Confirm termination",
    "Is any instance gone?",
    "Forget the nodes",
    "Is anything left?",
    "Tell of the wave",
]


def claim(name: str, reason: str = "deleted", not_before: int = 0) -> dict[str, Any]:
    return {"claim": name, "reason": reason, "instance": f"i-{name}", "notBefore": not_before}


def entry(name: str, stage: str = "draining", why: str = "") -> dict[str, Any]:
    return {"claim": name, "reason": "deleted", "instance": f"i-{name}", "node": f"node-{name}", "stage": stage, "why": why}


def begins(*waves: Sequence[Mapping[str, Any]], moving: int = 0) -> Line:
    """Without waves, everything that is asked for begins, in one."""

    def line(_world: "World", event: Mapping[str, Any]) -> Answer:
        begun = waves or ([entry(each["claim"]) for each in event["claims"]],)
        return {"refused": "", "waves": begun, "begun": sum(map(len, begun)), "moving": moving, "later": 0, "leftOut": []}

    return line


def moves(before: str, after: str, **more: Any) -> Line:
    """Every claim at the stage `before` gets on."""

    def line(_world: "World", event: Mapping[str, Any]) -> Answer:
        return {"claims": [{**each, "stage": after} if each["stage"] == before else each for each in event["claims"]], **more}

    return line


STAYS: Line = lambda _world, event: {"claims": event["claims"], "pause": 1}  # noqa: E731 - a line of the script

SMOOTH: Mapping[str, Sequence[Line]] = {
    "begin_retirement": [begins()],
    "evict_pods": [moves("draining", "drained", pause=1)],
    "terminate_instances": [moves("drained", "terminating")],
    "confirm_termination": [moves("terminating", "terminated")],
    "forget_nodes": [moves("terminated", "forgotten")],
}


@dataclass
class Prompter:
    """Tells the functions what to answer, by the cluster that they are asked about: each test has its own."""

    worlds: dict[str, "World"] = field(default_factory=dict)

    def say(self, name: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        line = self.worlds[event["cluster"]["name"]].next_line(name, event)
        return {"raises": line} if isinstance(line, str) else {"answer": line}


@dataclass(frozen=True)
class Stage:
    """The local AWS and the functions, whose sandboxes stay warm for all tests."""

    aws: RunningAws
    prompter: Prompter
    actors: Mapping[str, str]

    def world(self, **scripts: Sequence[Line]) -> "World":
        made = World(self.aws, self.actors, scripts)
        self.prompter.worlds[made.cluster] = made
        return made


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    prompter = Prompter()

    class Box(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = json.dumps(prompter.say(self.path.strip("/"), event)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    box = ThreadingHTTPServer(("127.0.0.1", 0), Box)
    threading.Thread(target=box.serve_forever, daemon=True).start()
    with started_server(tmp_path_factory.mktemp("local-aws")) as (aws, _):
        role = aws.role("lambda.amazonaws.com")
        told = {name: {"Variables": {"PROMPTER": f"http://127.0.0.1:{box.server_port}/{name}"}} for name in FUNCTIONS}
        actors = {name: aws.function(ACTOR, Role=role, Timeout=60, Environment=told[name]) for name in FUNCTIONS}
        yield Stage(aws, prompter, actors)
    box.shutdown()
    box.server_close()


@dataclass
class World:
    """One cluster's machine and table, and what its functions were told."""

    aws: RunningAws
    actors: Mapping[str, str]
    scripts: Mapping[str, Sequence[Line]]
    calls: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    cluster: str = field(init=False)
    table: str = field(init=False)
    arn: str = field(init=False)
    scale_up_arn: str = field(init=False)

    def __post_init__(self) -> None:
        self.table, self.cluster = self.aws.fresh("table"), self.aws.fresh("cluster")
        keys = [("kind", "HASH"), ("id", "RANGE")]
        self.aws.client("dynamodb").create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        network: Mapping[str, Any] = {}
        self.aws.client("eks").create_cluster(name=self.cluster, roleArn=self.aws.role("eks.amazonaws.com"), resourcesVpcConfig=network)
        self.aws.client("ssm").put_parameter(Name=pause_parameter(self.cluster), Value="false", Type="String")
        self.scale_up_arn = self._machine("scale-up", machine({"Ends": succeed()}, comment="ends", timeout=60))
        parts = RetirementParts(
            integrations=Integrations("aws"),
            cluster=self.cluster,
            table=self.table,
            scale_up_arn=self.scale_up_arn,
            functions={name: Callee(actor, 60) for name, actor in self.actors.items()},
        )
        self.arn = self._machine("retire", retire(parts))

    def _machine(self, name: str, definition: Mapping[str, Any]) -> str:
        role = self.aws.role("states.amazonaws.com")
        made = self.aws.client("stepfunctions").create_state_machine(
            name=self.aws.fresh(name), definition=json.dumps(definition), roleArn=role
        )
        arn: str = made["stateMachineArn"]
        return arn

    def next_line(self, name: str, event: Mapping[str, Any]) -> Answer | str:
        """What a function answers to this call; the last line is said again and again."""
        lines, heard = self.scripts.get(name, SMOOTH[name]), self.calls.setdefault(name, [])
        heard.append(event)
        line = lines[min(len(heard), len(lines)) - 1]
        return line(self, event) if callable(line) else line

    def start(self, *claims: Mapping[str, Any]) -> str:
        said = json.dumps({"reason": "test", "claims": claims})
        execution: str = self.aws.client("stepfunctions").start_execution(stateMachineArn=self.arn, name="retire-1", input=said)[
            "executionArn"
        ]
        return execution

    def end(self, execution: str) -> Mapping[str, Any]:
        def look() -> Mapping[str, Any] | None:
            said: Mapping[str, Any] = self.aws.client("stepfunctions").describe_execution(executionArn=execution)
            return said if said["status"] != "RUNNING" else None

        return eventually(look, 60)

    def told(self, execution: str) -> Mapping[str, Any]:
        """The output of an execution that ends well."""
        ended = self.end(execution)
        assert ended["status"] == "SUCCEEDED", (ended.get("error"), ended.get("cause"))
        told: Mapping[str, Any] = json.loads(ended["output"])
        return told

    def states(self, execution: str) -> list[str]:
        pages = self.aws.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=execution)
        events = [event for page in pages for event in page["events"]]
        return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]

    @property
    def lease(self) -> Mapping[str, Any]:
        key = {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}
        item: Mapping[str, Any] = self.aws.client("dynamodb").get_item(TableName=self.table, Key=key, ConsistentRead=True).get("Item", {})
        return item

    def hold_the_lease(self, *, until: int) -> None:
        item = {"holder": {"S": "arn"}, "leaseUntil": {"N": str(until)}, "leaseNumber": {"N": "3"}, "rings": {"N": "3"}}
        self.aws.client("dynamodb").put_item(TableName=self.table, Item={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}, **item})

    def ring(self) -> None:
        """What the doorbell does first."""
        self.aws.client("dynamodb").update_item(
            TableName=self.table,
            Key={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}},
            UpdateExpression="ADD rings :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    @property
    def scale_ups(self) -> list[str]:
        listed = self.aws.client("stepfunctions").list_executions(stateMachineArn=self.scale_up_arn)["executions"]
        return [each["name"] for each in listed]


def test_what_was_deleted_is_retired_at_once_and_without_the_lease(stage: Stage) -> None:
    world = stage.world()

    execution = world.start(claim("a"), claim("b"))

    assert world.told(execution) == {"refused": "", "retired": ["a", "b"], "waiting": [], "leftOut": [], "failures": []}
    around = [*TO_THE_WAVES, "Begin retirement", "Is the lease held?", "Must pods move?", "Has anything begun?", "Retire wave by wave"]
    assert world.states(execution) == [*around, *ONE_ROUND, "Tell of the group", "Who is in charge?", "What came of it?", "Summarise"]
    assert world.lease == {}
    assert world.scale_ups == []
    heard = world.calls["begin_retirement"][0]
    assert (heard["lease"], [each["claim"] for each in heard["claims"]]) == ({"number": 0}, ["a", "b"])
    assert (heard["schema"], heard["execution"]["id"]) == (1, execution)
    assert world.calls["evict_pods"][0]["pause"] == 1


def test_an_empty_node_begins_under_the_lease_when_it_is_due(stage: Stage) -> None:
    world, began = stage.world(), int(time.time())

    execution = world.start(claim("a", "empty", began + 3))

    assert world.told(execution)["retired"] == ["a"]
    assert time.time() >= began + 3
    middle = ["Must pods move?", "Has anything begun?", "Retire wave by wave"]
    ending = ["Tell of the group", "Who is in charge?", "What came of it?", "Summarise"]
    assert world.states(execution) == [*TO_THE_WAVES, *UNDER_THE_LEASE, *middle, *ONE_ROUND, *ending]
    assert world.calls["begin_retirement"][0]["lease"] == {"number": 1}
    assert "holder" not in world.lease
    assert world.scale_ups == []


def test_what_must_go_does_not_wait_for_what_may(stage: Stage) -> None:
    world = stage.world()
    world.hold_the_lease(until=9_999_999_999)

    execution = world.start(claim("empty", "empty"), claim("lost", "lost"))
    eventually(lambda: [each["stage"] for call in world.calls.get("forget_nodes", ()) for each in call["claims"]], 30)
    world.hold_the_lease(until=1)

    assert sorted(world.told(execution)["retired"]) == ["empty", "lost"]
    assert [(each["lease"]["number"], each["claims"][0]["claim"]) for each in world.calls["begin_retirement"]] == [
        (0, "lost"),
        (4, "empty"),
    ]


def test_an_instance_lost_before_its_launch_is_recorded_is_retired_seconds_later(stage: Stage) -> None:
    left_out = [{"claim": "a", "why": "it may still be launched"}]
    too_early = {"refused": "", "waves": [], "begun": 0, "moving": 0, "later": 1, "leftOut": left_out}
    world = stage.world(begin_retirement=[too_early, begins()])

    assert world.told(world.start(claim("a", "lost")))["retired"] == ["a"]
    assert len(world.calls["begin_retirement"]) == 2


def test_pods_that_have_to_move_ring_for_nodes(stage: Stage) -> None:
    world = stage.world(begin_retirement=[begins(moving=3)])

    world.told(world.start(claim("a")))

    assert world.lease["rings"] == {"N": "1"}
    assert [name.endswith("-retire") for name in world.scale_ups] == [True]


def test_whoever_rang_while_the_lease_was_held_is_answered(stage: Stage) -> None:
    def rings(world: World, event: Mapping[str, Any]) -> Answer | str:
        world.ring()
        line = begins()
        assert callable(line)
        return line(world, event)

    world = stage.world(begin_retirement=[rings])

    world.told(world.start(claim("a", "empty")))

    assert len(world.scale_ups) == 1
    assert "holder" not in world.lease


def test_who_lost_the_lease_begins_nothing(stage: Stage) -> None:
    world = stage.world(begin_retirement=["LeaseLost"])

    assert world.told(world.start(claim("a", "empty"))) == {
        "refused": "",
        "retired": [],
        "waiting": [],
        "leftOut": [{"claim": "a", "why": "the lease was taken"}],
        "failures": [],
    }
    assert len(world.calls["begin_retirement"]) == 1


def test_a_failure_gives_the_lease_back_and_says_what_failed(stage: Stage) -> None:
    world = stage.world(begin_retirement=["Broken"])

    ended = world.end(world.start(claim("a", "empty")))

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "as the script says" in ended["cause"]
    assert "holder" not in world.lease


def test_a_failure_is_told_although_the_lease_is_somebody_elses_by_then(stage: Stage) -> None:
    def loses_the_lease_and_breaks(world: World, _event: Mapping[str, Any]) -> Answer | str:
        world.hold_the_lease(until=9_999_999_999)
        return "Broken"

    world = stage.world(begin_retirement=[loses_the_lease_and_breaks])

    ended = world.end(world.start(claim("a", "empty")))

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert world.lease["holder"] == {"S": "arn"}


def test_a_node_that_is_blocked_keeps_no_other(stage: Stage) -> None:
    def only_b(_world: World, event: Mapping[str, Any]) -> Answer:
        drained = [{**each, "stage": "drained"} if each["claim"] == "b" else each for each in event["claims"]]
        return {"claims": drained, "pause": 1}

    last = SMOOTH["evict_pods"][0]
    world = stage.world(evict_pods=[only_b, STAYS, last])

    execution = world.start(claim("a"), claim("b"))

    assert world.told(execution)["retired"] == ["a", "b"]
    first = [each["stage"] for each in world.calls["forget_nodes"][0]["claims"]]
    assert first == ["draining", "terminated"]
    assert [call["round"] for call in world.calls["evict_pods"]] == [1, 2, 3]
    assert world.states(execution).count("Wait") == 2


def test_instances_that_take_their_time_are_looked_at_again(stage: Stage) -> None:
    last = SMOOTH["confirm_termination"][0]
    world = stage.world(confirm_termination=[STAYS, last])

    execution = world.start(claim("a"))

    assert world.told(execution)["retired"] == ["a"]
    states = world.states(execution)
    assert (states.count("Evict pods"), states.count("Terminate instances"), states.count("Confirm termination")) == (1, 1, 2)


def test_a_wave_that_fails_stops_no_other_and_is_told(stage: Stage) -> None:
    def fails_for_a(_world: World, event: Mapping[str, Any]) -> Answer | str:
        line = moves("draining", "drained", pause=1)
        assert callable(line)
        return "Broken" if event["claims"][0]["claim"] == "a" else line(_world, event)

    world = stage.world(begin_retirement=[begins([entry("a")], [entry("b")])], evict_pods=[fails_for_a])

    execution = world.start(claim("a"), claim("b"))
    ended = world.end(execution)

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert world.states(execution).count("The wave failed") == 1
    assert [call["claims"][0]["claim"] for call in world.calls["forget_nodes"]] == ["b"]


def test_beside_karpenter_it_ends_and_says_so(stage: Stage) -> None:
    left_out = [{"claim": "a", "why": "KarpenterRuns"}]
    refused = {"refused": "KarpenterRuns", "waves": [], "begun": 0, "moving": 0, "later": 0, "leftOut": left_out}
    world = stage.world(begin_retirement=[refused])

    execution = world.start(claim("a"))

    assert world.told(execution) == {"refused": "KarpenterRuns"}
    assert world.states(execution)[-1] == "Refused: Karpenter is running"
    assert "evict_pods" not in world.calls


def test_while_joiner_is_paused_nothing_begins(stage: Stage) -> None:
    world = stage.world()
    stage.aws.client("ssm").put_parameter(Name=pause_parameter(world.cluster), Value="true", Overwrite=True)

    execution = world.start(claim("a"))

    assert world.told(execution) == {"paused": True}
    assert world.states(execution) == ["Read the pause", "Is Joiner paused?", "Joiner is paused"]
    assert world.calls == {}


def test_whoever_pauses_joiner_ends_a_drain_before_its_next_look(stage: Stage) -> None:
    def is_paused(world: World, event: Mapping[str, Any]) -> Answer:
        stage.aws.client("ssm").put_parameter(Name=pause_parameter(world.cluster), Value="true", Overwrite=True)
        return {"claims": event["claims"], "pause": 5}

    world = stage.world(evict_pods=[is_paused])

    execution = world.start(claim("a"))

    assert world.told(execution) == {"paused": True}
    assert len(world.calls["evict_pods"]) == 1
    paused = ["Wait longer", "Read the pause again", "Was Joiner paused meanwhile?", "The wave is paused"]
    assert world.states(execution)[-7:] == [*paused, "Tell of the group", "Who is in charge?", "What came of it?", "Joiner is paused"][-7:]


def test_a_drain_that_goes_on_in_small_steps_asks_now_and_then_whether_joiner_is_paused(stage: Stage) -> None:
    world = stage.world(evict_pods=[*([STAYS] * LOOKS_UNASKED), SMOOTH["evict_pods"][0]])

    execution = world.start(claim("a"))

    assert world.told(execution)["retired"] == ["a"]
    assert world.states(execution).count("Read the pause again") == 1


def test_a_pause_that_was_deleted_pauses_no_drain(stage: Stage) -> None:
    stays: Line = lambda _world, event: {"claims": event["claims"], "pause": 5}  # noqa: E731 - a line of the script
    world = stage.world(evict_pods=[stays, SMOOTH["evict_pods"][0]])
    stage.aws.client("ssm").delete_parameter(Name=pause_parameter(world.cluster))

    assert world.told(world.start(claim("a")))["retired"] == ["a"]


def test_a_wave_that_goes_on_and_on_ends_before_its_history_does(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retirement_states, "OVER", retirement_states.OVER.replace(f">= {LOOKS}", ">= 3"))
    world = stage.world(evict_pods=[STAYS])

    execution = world.start(claim("a"))

    assert [each["claim"] for each in world.told(execution)["waiting"]] == ["a"]
    assert len(world.calls["evict_pods"]) == 3
    assert world.states(execution)[-1] == "Waiting for what keeps nodes"
