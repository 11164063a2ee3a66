"""RETIRE as it runs: the real definition on the local Step Functions, with functions that answer from a script."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from infra.retirement_expressions import EXPRESS_LIMITS, ROUNDS_BETWEEN_PAUSE_CHECKS, STANDARD_LIMITS
from infra.retirement_states import RetirementParts, retirement_definition
from infra.retirement_workflow import FUNCTIONS
from infra.service_integrations import ServiceIntegrations
from joiner.adapters.payload import EXPRESS_SECONDS, Execution
from joiner.names import pause_parameter
from tests.infra.scripted import Answer, Line, Scripted, Stage, staged
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

TO_THE_WAVES = ["Read the pause", "Is Joiner paused?", "Describe the cluster", "Retire", "Is it voluntary?"]
UNDER_THE_LEASE = ["Wait until it is due", "Take the lease", "Begin under the lease", "Release the lease"]
ONE_ROUND = [
    "How far has each come?",
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
    return {
        "claim": name,
        "reason": "deleted",
        "instance": f"i-{name}",
        "node": f"node-{name}",
        "stage": stage,
        "why": why,
    }


def begins(*waves: Sequence[Mapping[str, Any]], moving: int = 0) -> Line:
    """Without waves, everything that is asked for begins, in one."""

    def line(_world: "World", event: Mapping[str, Any]) -> Answer:
        begun = waves or ([entry(each["claim"]) for each in event["claims"]],)
        return {
            "refused": "",
            "waves": begun,
            "begun": sum(map(len, begun)),
            "moving": moving,
            "later": 0,
            "leftOut": [],
        }

    return line


def moves(before: str, after: str, **more: Any) -> Line:
    """Every claim at the stage `before` gets on."""

    def line(_world: "World", event: Mapping[str, Any]) -> Answer:
        return {
            "claims": [{**each, "stage": after} if each["stage"] == before else each for each in event["claims"]],
            **more,
        }

    return line


STAYS: Line = lambda _world, event: {"claims": event["claims"], "pause": 1}  # noqa: E731 - a line of the script

SMOOTH: Mapping[str, Sequence[Line]] = {
    "begin_retirement": [begins()],
    "evict_pods": [moves("draining", "drained", pause=1)],
    "terminate_instances": [moves("drained", "terminating")],
    "confirm_termination": [moves("terminating", "terminated")],
    "forget_nodes": [moves("terminated", "forgotten")],
}


class World(Scripted):
    """One cluster's machines and table, and what its functions were told."""

    limits = STANDARD_LIMITS
    limits_for_empty = EXPRESS_LIMITS

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scale_up_arn = self.machine("scale-up")
        parts = RetirementParts(
            integrations=ServiceIntegrations("aws"),
            cluster=self.cluster,
            table=self.table,
            scale_up_arn=self.scale_up_arn,
            functions=self.functions,
            limits=self.limits,
        )
        self.arn = self.machine("retire", retirement_definition(parts))
        self.parts_for_empty = replace(parts, limits=self.limits_for_empty)

    def start(self, *claims: Mapping[str, Any]) -> str:
        said = json.dumps({"reason": "test", "claims": claims})
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name="retire-1", input=said
        )["executionArn"]
        return execution

    def start_for_notes(self, not_before: int) -> str:
        """As an interruption starts it."""
        said = json.dumps({"reason": "interruption", "claims": [], "noted": True, "notBefore": not_before, "by": ""})
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name="retire-1", input=said
        )["executionArn"]
        return execution

    def ran_for_empty(self, *claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """An Express execution of the same states, from its start to its end."""
        arn = self.machine("empty", retirement_definition(self.parts_for_empty), kind="EXPRESS")
        return self.ran_express(arn, {"reason": "test", "claims": claims})

    def told(self, execution: str) -> Mapping[str, Any]:
        """The output of an execution that ends well."""
        ended = self.end(execution)
        assert ended["status"] == "SUCCEEDED", (ended.get("error"), ended.get("cause"))
        told: Mapping[str, Any] = json.loads(ended["output"])
        return told

    def hold_the_lease(self, *, until: int) -> None:
        self.put("LEASE", "scale-up", holder="arn", leaseUntil=until, leaseNumber=3, rings=3)

    @property
    def scale_ups(self) -> list[str]:
        return list(self.started(self.scale_up_arn))


@pytest.fixture(scope="module")
def stage(local_aws: RunningAws) -> Iterator[Stage[World]]:
    with staged(World, FUNCTIONS, SMOOTH, local_aws) as made:
        yield made


def test_what_was_deleted_is_retired_at_once_and_without_the_lease(stage: Stage[World]) -> None:
    world = stage.world()

    execution = world.start(claim("a"), claim("b"))

    assert world.told(execution) == {"refused": "", "retired": ["a", "b"], "waiting": [], "leftOut": [], "failures": []}
    around = [*TO_THE_WAVES, "Begin retirement", "What has begun?", "Retire wave by wave"]
    assert world.states(execution) == [*around, *ONE_ROUND, "Tell of the group", "What came of it?", "Summarise"]
    assert world.lease == {}
    assert world.scale_ups == []
    heard = world.calls["begin_retirement"][0]
    assert (heard["lease"], [each["claim"] for each in heard["claims"]]) == ({"number": 0}, ["a", "b"])
    assert (heard["schema"], heard["execution"]["id"], heard["noted"]) == (1, execution, False)
    assert world.calls["evict_pods"][0]["pause"] == 1


@pytest.mark.parametrize(
    ("ahead", "waited"), [(0, 0.0), (2, 2.0), (60, 5.0)], ids=["now", "two seconds ahead", "too far ahead"]
)
def test_what_was_noted_of_interrupted_instances_begins_from_the_second_that_was_asked_for(
    stage: Stage[World], ahead: int, waited: float
) -> None:
    heard_at: list[float] = []

    def begins_noted(_world: World, _event: Mapping[str, Any]) -> Answer:
        heard_at.append(time.time())
        return {"refused": "", "waves": [[entry("a")]], "begun": 1, "moving": 0, "later": 0, "leftOut": []}

    world, began = stage.world(begin_retirement=[begins_noted]), time.time()
    not_before = int(began) + ahead if ahead else 0

    execution = world.start_for_notes(not_before)

    assert world.told(execution) == {"refused": "", "retired": ["a"], "waiting": [], "leftOut": [], "failures": []}
    around = [*TO_THE_WAVES, "Wait for the notes", "Begin retirement", "What has begun?", "Retire wave by wave"]
    assert world.states(execution) == [*around, *ONE_ROUND, "Tell of the group", "What came of it?", "Summarise"]
    [heard] = world.calls["begin_retirement"]
    assert (heard["noted"], heard["claims"], heard["lease"]) == (True, [], {"number": 0})
    assert heard_at[0] >= min(not_before, began + 5)
    assert heard_at[0] - began < waited + 5
    assert world.lease == {}


def test_an_empty_node_begins_under_the_lease_when_it_is_due(stage: Stage[World]) -> None:
    world, began = stage.world(), int(time.time())

    execution = world.start(claim("a", "empty", began + 3))

    assert world.told(execution)["retired"] == ["a"]
    assert time.time() >= began + 3
    middle = ["What has begun?", "Retire wave by wave"]
    ending = ["Tell of the group", "What came of it?", "Summarise"]
    assert world.states(execution) == [*TO_THE_WAVES, *UNDER_THE_LEASE, *middle, *ONE_ROUND, *ending]
    assert world.calls["begin_retirement"][0]["lease"] == {"number": 1}
    assert "holder" not in world.lease
    assert world.scale_ups == []


def test_what_must_go_does_not_wait_for_what_may(stage: Stage[World]) -> None:
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


def test_an_instance_lost_before_its_launch_is_recorded_is_retired_seconds_later(stage: Stage[World]) -> None:
    left_out = [{"claim": "a", "why": "it may still be launched"}]
    too_early = {"refused": "", "waves": [], "begun": 0, "moving": 0, "later": 1, "leftOut": left_out}
    world = stage.world(begin_retirement=[too_early, begins()])

    assert world.told(world.start(claim("a", "lost")))["retired"] == ["a"]
    assert len(world.calls["begin_retirement"]) == 2


def test_pods_that_have_to_move_ring_for_nodes(stage: Stage[World]) -> None:
    world = stage.world(begin_retirement=[begins(moving=3)])

    world.told(world.start(claim("a")))

    assert world.lease["rings"] == {"N": "1"}
    assert [name.endswith("-retire") for name in world.scale_ups] == [True]


def test_whoever_rang_while_the_lease_was_held_is_answered(stage: Stage[World]) -> None:
    def rings(world: World, event: Mapping[str, Any]) -> Answer | str:
        world.ring()
        line = begins()
        assert callable(line)
        return line(world, event)

    world = stage.world(begin_retirement=[rings])

    world.told(world.start(claim("a", "empty")))

    assert len(world.scale_ups) == 1
    assert "holder" not in world.lease


def test_who_lost_the_lease_begins_nothing(stage: Stage[World]) -> None:
    world = stage.world(begin_retirement=["LeaseLost"])

    assert world.told(world.start(claim("a", "empty"))) == {
        "refused": "",
        "retired": [],
        "waiting": [],
        "leftOut": [{"claim": "a", "why": "the lease was taken"}],
        "failures": [],
    }
    assert len(world.calls["begin_retirement"]) == 1


def test_a_failure_gives_the_lease_back_and_says_what_failed(stage: Stage[World]) -> None:
    world = stage.world(begin_retirement=["Broken"])

    ended = world.end(world.start(claim("a", "empty")))

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "as the script says" in ended["cause"]
    assert "holder" not in world.lease


def test_a_failure_is_told_although_the_lease_is_somebody_elses_by_then(stage: Stage[World]) -> None:
    def loses_the_lease_and_breaks(world: World, _event: Mapping[str, Any]) -> Answer | str:
        world.hold_the_lease(until=9_999_999_999)
        return "Broken"

    world = stage.world(begin_retirement=[loses_the_lease_and_breaks])

    ended = world.end(world.start(claim("a", "empty")))

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert world.lease["holder"] == {"S": "arn"}


def test_a_node_that_is_blocked_keeps_no_other(stage: Stage[World]) -> None:
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


def test_instances_that_take_their_time_are_looked_at_again(stage: Stage[World]) -> None:
    last = SMOOTH["confirm_termination"][0]
    world = stage.world(confirm_termination=[STAYS, last])

    execution = world.start(claim("a"))

    assert world.told(execution)["retired"] == ["a"]
    states = world.states(execution)
    assert (states.count("Evict pods"), states.count("Terminate instances"), states.count("Confirm termination")) == (
        1,
        1,
        2,
    )


def test_a_wave_that_fails_stops_no_other_and_is_told(stage: Stage[World]) -> None:
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


def test_beside_karpenter_it_ends_and_says_so(stage: Stage[World]) -> None:
    left_out = [{"claim": "a", "why": "KarpenterRuns"}]
    refused = {"refused": "KarpenterRuns", "waves": [], "begun": 0, "moving": 0, "later": 0, "leftOut": left_out}
    world = stage.world(begin_retirement=[refused])

    execution = world.start(claim("a"))

    assert world.told(execution) == {"refused": "KarpenterRuns"}
    assert world.states(execution)[-1] == "Refused: Karpenter is running"
    assert "evict_pods" not in world.calls


def test_while_joiner_is_paused_nothing_begins(stage: Stage[World]) -> None:
    world = stage.world()
    world.pause("true")

    execution = world.start(claim("a"))

    assert world.told(execution) == {"paused": True}
    assert world.states(execution) == ["Read the pause", "Is Joiner paused?", "Joiner is paused"]
    assert world.calls == {}


def test_whoever_pauses_joiner_ends_a_drain_before_its_next_look(stage: Stage[World]) -> None:
    def is_paused(world: World, event: Mapping[str, Any]) -> Answer:
        world.pause("true")
        return {"claims": event["claims"], "pause": 5}

    world = stage.world(evict_pods=[is_paused])

    execution = world.start(claim("a"))

    assert world.told(execution) == {"paused": True}
    assert len(world.calls["evict_pods"]) == 1
    paused = ["Wait longer", "Read the pause again", "Was Joiner paused meanwhile?", "The wave is paused"]
    assert world.states(execution)[-7:] == [*paused, "Tell of the group", "What came of it?", "Joiner is paused"]


def test_a_drain_that_goes_on_in_small_steps_asks_now_and_then_whether_joiner_is_paused(stage: Stage[World]) -> None:
    world = stage.world(evict_pods=[*([STAYS] * ROUNDS_BETWEEN_PAUSE_CHECKS), SMOOTH["evict_pods"][0]])

    execution = world.start(claim("a"))

    assert world.told(execution)["retired"] == ["a"]
    assert world.states(execution).count("Read the pause again") == 1


def test_a_pause_that_was_deleted_pauses_no_drain(stage: Stage[World]) -> None:
    stays: Line = lambda _world, event: {"claims": event["claims"], "pause": 5}  # noqa: E731 - a line of the script
    world = stage.world(evict_pods=[stays, SMOOTH["evict_pods"][0]])
    stage.aws.client("ssm").delete_parameter(Name=pause_parameter(world.cluster))

    assert world.told(world.start(claim("a")))["retired"] == ["a"]


def test_a_wave_that_goes_on_and_on_ends_before_its_history_does(
    stage: Stage[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "limits", replace(STANDARD_LIMITS, rounds=3))
    world = stage.world(evict_pods=[STAYS])

    execution = world.start(claim("a"))

    assert [each["claim"] for each in world.told(execution)["waiting"]] == ["a"]
    assert len(world.calls["evict_pods"]) == 3
    assert world.states(execution)[-1] == "Waiting for what keeps nodes"


def test_empty_nodes_go_by_the_same_states_in_an_express_execution(stage: Stage[World]) -> None:
    world = stage.world()

    ended = world.ran_for_empty(claim("a", "empty"))

    assert (ended["status"], json.loads(ended["output"])["retired"]) == ("SUCCEEDED", ["a"])
    middle = ["What has begun?", "Retire wave by wave"]
    ending = ["Tell of the group", "What came of it?", "Summarise"]
    assert ended["states"] == [*TO_THE_WAVES, *UNDER_THE_LEASE, *middle, *ONE_ROUND, *ending]
    heard = world.calls["begin_retirement"][0]["execution"]
    assert (
        Execution(heard["name"], heard["id"], heard["startTime"]).ends_by == int(ended["startDate"]) + EXPRESS_SECONDS
    )
    assert "holder" not in world.lease


def test_an_express_execution_ends_before_aws_ends_it_and_says_what_it_waited_for(
    stage: Stage[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "limits_for_empty", replace(EXPRESS_LIMITS, last_round_after=0))
    world = stage.world(confirm_termination=[STAYS])

    ended = world.ran_for_empty(claim("a", "empty"))

    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "Waiting for what keeps nodes")
    assert [each["claim"] for each in json.loads(ended["output"])["waiting"]] == ["a"]
