"""States of the retirement machines: from claims to retire until their instances, their nodes and the claims are gone.

A retirement that may be cancelled begins under the lease; others begin at once. Then the claims of each wave progress
in rounds (`infra/retirement_wave_states.py`): pods are evicted, drained instances are terminated, and nodes of
terminated instances are removed. A blocked node delays no other node. After half an hour the execution ends and reports
what it waited for. Its state is in the claims, so the sweep starts the next execution. The execution also ends, between
two rounds, when a user pauses Joiner.

Empty nodes are retired by the same states in an Express execution, whose state transitions are free. AWS ends it after
five minutes, so it has `EXPRESS_LIMITS`. A claim that is left then has a deletion timestamp, and is retired like any
other deleted claim.

Step Functions runs an Express execution at least once: the same ARN may run twice, also at the same time. The ARN owns
the lease and the claims, so neither run excludes the other. Neither has to: each taking of the lease has its own
number, and a run that reads another number leaves its claims alone. Each function accepts what the other run has begun
or done, as it accepts a retry. If one run releases the lease while the other begins, a plan may use a node that is
tainted in the same second: a pod that is bound to such a node makes the retirement untaint it, and a pod that comes too
late is planned again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.lease_limits import LEASE_RETRY_SECONDS
from infra.lease_states import LEASE_LOST, attribute
from infra.machine_resources import MachineResources
from infra.retirement_expressions import CLAIM_GROUPS, SECONDS_UNTIL_DUE, SECONDS_UNTIL_NOTED, SUMMARY
from infra.retirement_limits import (
    CONCURRENT_GROUPS,
    CONCURRENT_WAVES,
    LAUNCH_RECORD_ATTEMPTS,
    LAUNCH_RECORD_RETRY_SECONDS,
    RETIREMENT_LEASE_ATTEMPTS,
    STANDARD_LIMITS,
    RetirementLimits,
)
from infra.retirement_wave_states import wave_states
from infra.service_integrations import execution_name
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    FAILURE,
    Catch,
    State,
    States,
    choice_state,
    fail_state,
    jsonata,
    map_state,
    pass_state,
    refusal_branches,
    refusal_states,
    state_machine,
    succeed_state,
    wait_state,
)

INITIAL_VARIABLES: Final[Mapping[str, Any]] = {
    "turn": 1,
    "asked": jsonata("[$states.context.Execution.Input.claims]"),
    "noted": jsonata("true in [$states.context.Execution.Input.noted]"),
    "notesFrom": jsonata("[$states.context.Execution.Input.notBefore, 0][0]"),
}

GROUP_VARIABLES: Final[Mapping[str, Any]] = {
    "wanted": jsonata("$states.input.group.claims"),
    "readsNotes": jsonata("$states.input.group.noted"),
    "leaseNumber": 0,
    "ringsNoted": 0,
    "ringsNow": 0,
    "tries": 0,
    "begun": {"refused": "", "waves": [], "begun": 0, "moving": 0, "later": 0, "overLimit": 0, "skipped": []},
}
"""Variables of one group. States inside a Map cannot set variables of the outer scope, so an error is the output of a
state there."""

AFTER_BEGINNING: Final[Mapping[str, str]] = {
    "$count($begun.waves) > 0": "Retire wave by wave",
    f"$begun.later > 0 and $leaseNumber = 0 and $tries < {LAUNCH_RECORD_ATTEMPTS}": "Let launches be recorded",
}
"""Branches of the choices that follow *Begin retirement*."""


@dataclass(frozen=True, slots=True)
class RetirementResources(MachineResources):
    """What the states refer to."""

    scale_up_arn: str
    limits: RetirementLimits = STANDARD_LIMITS


def retirement_definition(resources: RetirementResources) -> State:
    """Return the definition of the machine."""
    failing = [Catch([EVERY_ERROR], "The retirement failed")]
    states: States = {
        **resources.integrations.unless_paused(resources.cluster, next="Describe the cluster", catch=failing),
        "Describe the cluster": resources.integrations.describe_cluster(
            resources.cluster, next="Retire", assign=INITIAL_VARIABLES, catch=failing
        ),
        "Retire": _retire_groups(resources, catch=failing),
        **_final_states(),
    }
    return state_machine(
        states, comment="From claims to retire until nothing of them is left", timeout=resources.limits.seconds
    )


def _retire_groups(resources: RetirementResources, *, catch: list[Catch]) -> State:
    groups = map_state(
        CLAIM_GROUPS,
        selector={"group": jsonata("$states.context.Map.Item.Value")},
        concurrency=CONCURRENT_GROUPS,
        states={
            **_lease_states(resources),
            **_begin_states(resources),
            **_ring_states(resources),
            **_group_end_states(resources),
        },
        next="How did it end?",
        catch=catch,
    )
    result = {"summary": jsonata(SUMMARY), "paused": jsonata("true in [$states.result.waves.paused]")}
    return {**groups, "Assign": result}


def _final_states() -> States:
    return {
        "How did it end?": choice_state(
            {
                **refusal_branches("$summary.refused"),
                "$count($summary.failures) > 0": "Set the failure",
                "$paused": "Joiner is paused",
                "$count($summary.waiting) > 0": "Waiting for blocked nodes",
            },
            otherwise="Summarise",
        ),
        **refusal_states("$summary.refused"),
        "Waiting for blocked nodes": succeed_state(jsonata("$summary")),
        "Summarise": succeed_state(jsonata("$summary")),
        "Set the failure": pass_state(
            assign={"failure": jsonata("$summary.failures[0]")}, next="The retirement failed"
        ),
        "The retirement failed": fail_state(),
    }


def _lease_states(resources: RetirementResources) -> States:
    left_out = jsonata('$wanted.{"claim": claim, "why": "the lease was taken"}')
    return {
        "Is it voluntary?": choice_state(
            {
                "$states.input.group.voluntary": "Wait until it is due",
                "$states.input.group.noted": "Wait for interruption notices",
            },
            otherwise="Begin retirement",
            assign=GROUP_VARIABLES,
        ),
        "Wait until it is due": wait_state(jsonata(SECONDS_UNTIL_DUE), next="Take the lease"),
        "Take the lease": _take_lease(resources),
        "Are attempts left?": choice_state(
            {f"$tries < {RETIREMENT_LEASE_ATTEMPTS}": "Wait for the lease"}, otherwise="Left for the next sweep"
        ),
        "Wait for the lease": wait_state(LEASE_RETRY_SECONDS, next="Try again"),
        "Try again": pass_state(assign={"tries": jsonata("$tries + 1")}, next="Take the lease"),
        "Left for the next sweep": pass_state(output={"skipped": left_out, "waves": []}),
    }


def _begin_states(resources: RetirementResources) -> States:
    return {
        "Begin under the lease": _begin_retirement(resources, next="Release the lease"),
        "Release the lease": _release_lease(resources, next="What has begun?"),
        "Wait for interruption notices": wait_state(jsonata(SECONDS_UNTIL_NOTED), next="Begin retirement"),
        "Begin retirement": _begin_retirement(resources, next="What has begun?"),
        "Give back the lease": _release_lease(resources, next="The group failed"),
        "The group failed": pass_state(output={"failed": jsonata(FAILURE), "waves": [], "skipped": []}),
    }


def _begin_retirement(resources: RetirementResources, *, next: str) -> State:
    return resources.integrations.invoke(
        resources.functions["begin_retirement"],
        {
            "lease": {"number": jsonata("$leaseNumber")},
            "claims": jsonata("$wanted"),
            "noted": jsonata("$readsNotes"),
        },
        next=next,
        assign={"begun": jsonata("$states.result.Payload")},
        catch=[
            Catch(LEASE_LOST, "Left for the next sweep", kept=False),
            Catch([EVERY_ERROR], "Give back the lease", kept=False),
        ],
    )


def _ring_states(resources: RetirementResources) -> States:
    """Start a scale-up for evicted pods, and for rings while this execution held the lease, since other executions plan
    nothing then."""
    return {
        "What has begun?": choice_state(
            {
                "$readsNotes and $begun.overLimit > 0": "Retire the other interrupted nodes",
                "$begun.moving > 0 or $ringsNow != $ringsNoted": "Ring for the pods",
                **AFTER_BEGINNING,
            },
            otherwise="Nothing has begun",
        ),
        # More notes than one execution takes: their instances end in two minutes, before a sweep would find them all
        "Retire the other interrupted nodes": resources.integrations.start_execution(
            jsonata("$states.context.StateMachine.Id"),
            execution_name("retire", "interrupted", milliseconds=True),
            {
                "reason": "interruption",
                "claims": [],
                "noted": True,
                "notBefore": 0,
                "by": jsonata("$states.context.Execution.Name"),
            },
            next="Ring for the pods",
            on_error="Ring for the pods",
        ),
        "Ring for the pods": resources.lease.ring(
            next="Start a scale-up",
            catch=[Catch([EVERY_ERROR], "Has anything begun?", kept=False)],  # the sweep finds these pods, too
        ),
        "Start a scale-up": resources.integrations.start_execution(
            resources.scale_up_arn,
            execution_name("up", "retire", milliseconds=True),
            {"reason": "pods of retiring nodes"},
            next="Has anything begun?",
            on_error="Has anything begun?",
        ),
    }


def _group_end_states(resources: RetirementResources) -> States:
    left_out = jsonata("$begun.skipped")
    return {
        "Has anything begun?": choice_state(AFTER_BEGINNING, otherwise="Nothing has begun"),
        "Let launches be recorded": wait_state(LAUNCH_RECORD_RETRY_SECONDS, next="Begin once more"),
        "Begin once more": pass_state(assign={"tries": jsonata("$tries + 1")}, next="Begin retirement"),
        "Nothing has begun": pass_state(
            output={"refused": jsonata("$begun.refused"), "skipped": left_out, "waves": []}
        ),
        "Retire wave by wave": _retire_waves(resources),
        "The waves failed": pass_state(output={"failed": jsonata(FAILURE), "skipped": left_out, "waves": []}),
        "Summarise the group": pass_state(output={"skipped": left_out, "waves": jsonata("$states.input")}),
    }


def _retire_waves(resources: RetirementResources) -> State:
    return map_state(
        "$begun.waves",
        selector={"claims": jsonata("$states.context.Map.Item.Value")},
        concurrency=CONCURRENT_WAVES,
        states=wave_states(resources.integrations, resources.cluster, resources.functions, resources.limits),
        next="Summarise the group",
        catch=[Catch([EVERY_ERROR], "The waves failed", kept=False)],
    )


def _take_lease(resources: RetirementResources) -> State:
    return resources.lease.take(
        next="Begin under the lease",
        assign={
            "leaseNumber": attribute("leaseNumber"),
            "ringsNoted": attribute("rings"),
            "ringsNow": attribute("rings"),
        },
        catch=[
            Catch(CONDITION_FAILED, "Are attempts left?", kept=False),
            Catch([EVERY_ERROR], "Give back the lease", kept=False),
        ],
    )


def _release_lease(resources: RetirementResources, *, next: str) -> State:
    """Release the lease whether or not the doorbell rang; a later state starts a scale-up if it did. A foreign lease is
    kept."""
    unchanged = jsonata("$states.input")
    return resources.lease.give_back(
        next=next,
        assign={"ringsNow": attribute("rings")},
        output=unchanged,
        catch=[Catch(errors, next, kept=False, output=unchanged) for errors in (CONDITION_FAILED, [EVERY_ERROR])],
    )
