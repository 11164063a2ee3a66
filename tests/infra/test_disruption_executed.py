"""Executed disruptions: the real definition on the local Step Functions, with functions that answer from a script."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.disruption_workflow import FUNCTIONS, OF_SCALE_UPS
from joiner.names import KARPENTER_RUNS
from tests.infra.disruption_world import (
    BOOTING,
    FOUND,
    JOINED,
    MARKED,
    NOTHING_TO_DO,
    PROPOSED,
    REQUEST,
    SETTLED,
    SMOOTH,
    DisruptedWorld,
)
from tests.infra.scripted import Answer, ScriptedAccount, staged
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

BEGINNING = [
    "Read the pause",
    "Is Joiner paused?",
    "Describe the cluster",
    "Take the turn",
    "Is a disruption left over?",
]
FIRST_LOOK = [
    "Find candidates",
    "May nodes be disrupted?",
    "Resolve node classes",
    "Propose disruption",
    "Report candidates",
    "Is anything proposed?",
]
SECOND_LOOK = [
    "Let pods settle",
    "Take the lease",
    "Find candidates again",
    "May nodes still be disrupted?",
    "Validate disruption",
    "Is the proposal still valid?",
]
MARKING = ["Mark nodes", "Are replacements needed?"]
LAUNCHING = ["Record node claims", "Launch instances", "Launch one group", "Record launches"]
RELEASING = ["Release the lease", "Did it ring meanwhile?", "Are nodes marked?"]
SETTLING = ["Settle disruptions", "May nodes be retired?"]
ENDING = ["Give the turn back", "How did it end?", "Summarise"]
REPLACED = {**MARKED, "plan": "plans/x/2.json.gz", "replacements": 1}


@pytest.fixture(scope="module")
def stage(local_aws: RunningAws) -> Iterator[ScriptedAccount[DisruptedWorld]]:
    with staged(DisruptedWorld, (*FUNCTIONS, *OF_SCALE_UPS), SMOOTH, local_aws) as made:
        local_aws.knob("mishaps/pace", factor=0.1)  # pods settle for 15 s in each execution
        try:
            yield made
        finally:
            local_aws.knob("mishaps/pace", factor=1)


def test_nodes_without_replacement_are_marked_and_retired(stage: ScriptedAccount[DisruptedWorld]) -> None:
    world = stage.world()

    execution = world.start()

    summary = world.summary(execution)
    assert (summary["retired"], summary["waiting"], summary["undone"]) == (1, 0, [])
    assert summary["marked"] == [{"reason": "Underutilized", "claims": ["a"]}]
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert world.states(execution) == [
        *BEGINNING,
        *FIRST_LOOK,
        *SECOND_LOOK,
        *MARKING,
        *RELEASING,
        *retiring,
        *ENDING,
    ]
    assert world.retired() == [[REQUEST]]
    first, second = world.calls["propose_disruption"]
    assert (first["digest"], first.get("lease"), first["round"]) == ("abc", None, 1)
    assert (second["proposal"], second["lease"], second["round"]) == ("decisions/x/1.json.gz", {"number": 1}, 2)
    assert world.calls["mark_nodes"][0]["lease"] == {"number": 1}


def test_replacements_are_initialized_before_the_retirement_starts(stage: ScriptedAccount[DisruptedWorld]) -> None:
    before: list[int] = []

    def settles(world: DisruptedWorld, _event: Mapping[str, Any]) -> Answer:
        before.append(len(world.calls.get("check_registration", ())))
        return {**SETTLED, "waiting": 1} if before[-1] < 2 else {**SETTLED, "retire": [REQUEST]}

    world = stage.world(mark_nodes=[REPLACED], settle_disruptions=[settles], check_registration=[BOOTING, JOINED])

    execution = world.start()

    assert world.summary(execution)["retired"] == 1
    awaiting = ["Are replacements on their way?", "Check registration", "Has a replacement joined?"]
    assert world.states(execution) == [
        *BEGINNING,
        *FIRST_LOOK,
        *SECOND_LOOK,
        *MARKING,
        *LAUNCHING,
        *RELEASING,
        *SETTLING,
        *awaiting,
        "Await nodes",
        *awaiting[1:],
        *SETTLING,
        "Retire nodes",
        "Are replacements on their way?",
        *ENDING,
    ]
    assert before == [0, 2]
    assert world.calls["record_node_claims"][0]["plan"] == "plans/x/2.json.gz"
    assert world.calls["check_registration"][0]["events"] == ["events/x/2-p"]


def test_a_replacement_without_capacity_is_undone_and_nothing_is_retired(
    stage: ScriptedAccount[DisruptedWorld],
) -> None:
    undone = {"claims": ["a"], "why": "replacement b could not be launched"}
    world = stage.world(mark_nodes=[REPLACED], settle_disruptions=[{**SETTLED, "undone": [undone]}])

    summary = world.summary(world.start())

    assert (summary["retired"], summary["undone"], world.retired()) == (0, [undone], [])
    assert "check_registration" not in world.calls


def test_a_cluster_where_nothing_is_proposed_is_not_locked(stage: ScriptedAccount[DisruptedWorld]) -> None:
    world = stage.world(propose_disruption=[NOTHING_TO_DO])

    execution = world.start()

    assert world.summary(execution)["retired"] == 0
    assert world.states(execution) == [*BEGINNING, *FIRST_LOOK, *ENDING]
    assert world.lease == {}


def test_an_action_that_the_second_proposal_does_not_confirm_is_dropped(stage: ScriptedAccount[DisruptedWorld]) -> None:
    world = stage.world(propose_disruption=[PROPOSED, NOTHING_TO_DO])

    execution = world.start()

    assert world.summary(execution)["retired"] == 0
    assert world.states(execution) == [*BEGINNING, *FIRST_LOOK, *SECOND_LOOK, *RELEASING, *ENDING]
    assert "mark_nodes" not in world.calls


def test_a_ring_while_the_lease_is_held_starts_a_scale_up(stage: ScriptedAccount[DisruptedWorld]) -> None:
    def rings(world: DisruptedWorld, _event: Mapping[str, Any]) -> Answer:
        world.ring()
        return MARKED

    world = stage.world(mark_nodes=[rings])

    world.summary(world.start())

    assert [name.endswith("-disrupt") for name in world.started(world.scale_up_arn)] == [True]


def test_left_over_disruptions_are_settled_before_the_next_look(stage: ScriptedAccount[DisruptedWorld]) -> None:
    world = stage.world(propose_disruption=[NOTHING_TO_DO])

    execution = world.start(unfinished=1)

    assert world.summary(execution)["retired"] == 1
    retiring = [*SETTLING, "Retire nodes", "Are replacements on their way?"]
    assert world.states(execution) == [*BEGINNING, *retiring, *FIRST_LOOK, *ENDING]


def test_nothing_new_is_proposed_while_replacements_of_another_execution_boot(
    stage: ScriptedAccount[DisruptedWorld],
) -> None:
    world = stage.world(settle_disruptions=[{**SETTLED, "waiting": 1}])

    execution = world.start(unfinished=1)

    assert world.summary(execution)["waiting"] == 1
    assert world.states(execution) == [*BEGINNING, *SETTLING, "Are replacements on their way?", *ENDING]


def test_a_second_execution_ends_at_once(stage: ScriptedAccount[DisruptedWorld]) -> None:
    world = stage.world()
    world.put("LEASE", "disrupt", holder="arn", disruptUntil=9_999_999_999)

    ended = world.end(world.start())

    assert (ended["status"], ended["output"]) == ("SUCCEEDED", '{"joined":true}')
    assert world.calls == {}


@pytest.mark.parametrize(
    ("scripts", "end"),
    [
        ({"find_candidates": [{**FOUND, "refused": KARPENTER_RUNS, "why": KARPENTER_RUNS}]}, "refused"),
        ({"find_candidates": [{**FOUND, "why": "no node is initialized and stays"}]}, "why"),
    ],
)
def test_a_proposal_that_is_not_possible_gives_the_reason(
    stage: ScriptedAccount[DisruptedWorld], scripts: Mapping[str, Any], end: str
) -> None:
    world = stage.world(**scripts)

    summary = world.summary(world.start())

    assert summary[end] == scripts["find_candidates"][0][end]
    assert "propose_disruption" not in world.calls


@pytest.mark.parametrize("name", ["find_candidates", "propose_disruption", "settle_disruptions"])
def test_a_function_that_fails_leaves_neither_the_turn_nor_the_lease(
    stage: ScriptedAccount[DisruptedWorld], name: str
) -> None:
    world = stage.world(**{name: ["Broken: as the script says"]})

    ended = world.end(world.start())

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "holder" not in world.item("LEASE", "disrupt")
    assert "holder" not in world.lease


def test_marked_nodes_of_a_failed_launch_are_left_to_the_next_execution(stage: ScriptedAccount[DisruptedWorld]) -> None:
    world = stage.world(mark_nodes=[REPLACED], record_node_claims=["Broken: as the script says"])

    ended = world.end(world.start())

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert ("holder" in world.lease, world.retired()) == (False, [])


def test_a_lost_lease_marks_nothing_and_is_no_failure(stage: ScriptedAccount[DisruptedWorld]) -> None:
    def loses(world: DisruptedWorld, _event: Mapping[str, Any]) -> str:
        world.put("LEASE", "scale-up", holder="another", leaseUntil=9_999_999_999, leaseNumber=2, rings=0)
        return "LeaseLost: another execution holds it"

    world = stage.world(find_candidates=[FOUND, loses])

    ended = world.end(world.start())

    assert ended["status"] == "SUCCEEDED"
    assert (world.lease["holder"], "mark_nodes" in world.calls) == ({"S": "another"}, False)
    assert "holder" not in world.item("LEASE", "disrupt")
