"""The states of each machine, in the order in which an execution enters them."""

from collections.abc import Mapping
from typing import Any

from infra.lease_limits import LEASE_RETRY_SECONDS
from infra.retirement_limits import (
    EXPRESS_LIMITS,
    MAX_DUE_WAIT_SECONDS,
    RETIREMENT_LEASE_ATTEMPTS,
    TERMINATION_POLL_SECONDS,
)
from joiner.adapters.payload import EXPRESS_SECONDS
from tests.infra.conftest import States, graphs


def test_the_scale_up_machine_has_these_states(scale_up: States) -> None:
    assert list(scale_up) == [
        "Read the pause",
        "Is Joiner paused?",
        "Joiner is paused",
        "Describe the cluster",
        "Take the lease",
        "Joined the running scale-up",
        "Let pods gather",
        "Find pending pods",
        "Is there anything to do?",
        "Give up the lease",
        "Why was it refused?",
        "Refused: Karpenter is running",
        "Refused: the definitions are not Joiner's",
        "Release the unused lease",
        "Resolve node classes",
        "Plan capacity",
        "Record node claims",
        "Are there several launches?",
        "Launch one group",
        "Launch instances",
        "Record launches",
        "Did offerings turn out short?",
        "Back off after throttling",
        "Plan around them",
        "Release the lease",
        "May it plan again?",
        "Hand over",
        "Start the next scale-up",
        "Are nodes on their way?",
        "Check registration",
        "Have all nodes joined?",
        "Await nodes",
        "Summarise",
        "Release after a failure",
        "Did it ring meanwhile?",
        "Ring again",
        "The scale-up failed",
    ]


def test_several_launches_run_beside_the_registration_of_their_nodes(scale_up: States) -> None:
    launching, registration = (branch["States"] for branch in scale_up["Launch instances"]["Branches"])

    assert list(launching) == ["Launch all groups", "End the launches", "The lease is lost", "The launches failed"]
    assert list(registration) == [
        "Let some launches end",
        "Record launches so far",
        "Are nodes to be registered?",
        "Check registration so far",
        "Let launches proceed",
        "Launches are recorded",
    ]


def test_the_sweep_machine_has_these_states(machines: Mapping[str, Mapping[str, Any]]) -> None:
    assert list(machines["joiner-sweep-example"]["States"]) == [
        "What started it?",
        "Let the deletion be stored",
        "Take the turn",
        "Wait for the running sweep",
        "How long has it waited?",
        "Let the running sweep end",
        "The next sweep sees it",
        "The running sweep takes too long",
        "Describe the cluster",
        "Read the pause",
        "Survey the cluster",
        "Why was it refused?",
        "Survey the instances",
        "Is Joiner paused?",
        "Decide what is due",
        "Is anything due?",
        "Are nodes empty?",
        "Retire empty nodes",
        "Is a retirement due?",
        "Start a retirement",
        "Is a scale-up due?",
        "Ring",
        "Start a scale-up",
        "Is there garbage?",
        "Collect garbage",
        "Are claims missing?",
        "Rebuild claims",
        "Is drift to be detected?",
        "Resolve node classes",
        "Is a class to be validated?",
        "Validate node classes",
        "Did a verdict change?",
        "Resolve node classes again",
        "Detect drift",
        "Is a disruption due?",
        "Start a disruption",
        "Do more empty nodes wait?",
        "Sweep again",
        "Is a warm-up due?",
        "Keep functions warm",
        "Give the turn back",
        "How did it end?",
        "Functions are warm",
        "Refused: Karpenter is running",
        "Refused: the definitions are not Joiner's",
        "Joiner is paused",
        "What was due was started",
        "Nothing is due",
        "The sweep failed",
    ]


def test_the_disruption_machine_has_these_states(machines: Mapping[str, Mapping[str, Any]]) -> None:
    assert list(machines["joiner-disrupt-example"]["States"]) == [
        "Read the pause",
        "Is Joiner paused?",
        "Joiner is paused",
        "Describe the cluster",
        "Take the turn",
        "Another disruption runs",
        "Is a disruption left over?",
        "Find candidates",
        "May nodes be disrupted?",
        "Resolve node classes",
        "Propose disruption",
        "Report candidates",
        "Is anything proposed?",
        "Let pods settle",
        "Take the lease",
        "Are attempts left?",
        "Wait for the lease",
        "Find candidates again",
        "May nodes still be disrupted?",
        "Validate disruption",
        "Is the proposal still valid?",
        "Read the pause before the mark",
        "May nodes be marked?",
        "Mark nodes",
        "Read the pause after the mark",
        "Are replacements needed?",
        "Record node claims",
        "Launch instances",
        "Record launches",
        "Release the lease",
        "Did it ring meanwhile?",
        "Start a scale-up",
        "Are nodes marked?",
        "Settle disruptions",
        "May nodes be retired?",
        "Retire nodes",
        "Are replacements on their way?",
        "Check registration",
        "Has a replacement joined?",
        "Let others disrupt nodes",
        "Await nodes",
        "Give the turn back",
        "How did it end?",
        "Refused: Karpenter is running",
        "Refused: the definitions are not Joiner's",
        "Summarise",
        "The disruption failed",
    ]


def test_the_retirement_machine_has_these_states(machines: Mapping[str, Mapping[str, Any]]) -> None:
    outer, group, wave = (graph["States"] for graph in graphs(machines["joiner-retire-example"]))

    assert list(outer) == [
        "Read the pause",
        "Is Joiner paused?",
        "Joiner is paused",
        "Describe the cluster",
        "Retire",
        "How did it end?",
        "Refused: Karpenter is running",
        "Refused: the definitions are not Joiner's",
        "Waiting for blocked nodes",
        "Summarise",
        "Set the failure",
        "The retirement failed",
    ]
    assert [name for name in group if group[name]["Type"] == "Task"] == [
        "Take the lease",
        "Begin under the lease",
        "Release the lease",
        "Begin retirement",
        "Give back the lease",
        "Retire the other interrupted nodes",
        "Ring for the pods",
        "Start a scale-up",
    ]
    assert [name for name in wave if wave[name]["Type"] == "Task"] == [
        "Evict pods",
        "Terminate instances",
        "Confirm termination",
        "Forget the nodes",
        "Read the pause again",
    ]


def test_empty_nodes_are_retired_by_the_same_states_within_the_time_of_an_express_execution(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    brief, long = machines["joiner-empty-example"], machines["joiner-retire-example"]

    assert [list(graph["States"]) for graph in graphs(brief)] == [list(graph["States"]) for graph in graphs(long)]
    before_the_first_look = MAX_DUE_WAIT_SECONDS + LEASE_RETRY_SECONDS * RETIREMENT_LEASE_ATTEMPTS
    assert (
        before_the_first_look
        < EXPRESS_LIMITS.last_round_after
        < EXPRESS_LIMITS.last_round_after + max(TERMINATION_POLL_SECONDS, EXPRESS_LIMITS.longest_pause)
        <= 240
    )
    assert brief["TimeoutSeconds"] == EXPRESS_LIMITS.seconds < EXPRESS_SECONDS
