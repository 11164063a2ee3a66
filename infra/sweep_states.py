"""SWEEP, state by state: the minute's look at the cluster and at EC2, which starts what is due.

It starts nothing itself from a function: a function in a VPC could not, and here everybody sees why something was started. Like every
other ringer it counts its ring first: a holder whose lease the new execution finds taken looks again before it lets go.

Each of the things that may be due is started by itself: one that cannot be started keeps no other, and is due again at the next sweep.
Nodes that are empty, the daily way down, go by an Express execution, in which states cost nothing; all others may take their time.

Sweeps look one at a time (`infra/sweep_turn_states.py`): every way out gives the turn back before it ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.lease_states import LeaseStates
from infra.states_language import (
    EVERY_ERROR,
    EXECUTION_EXISTS,
    CalledFunction,
    Catch,
    ServiceIntegrations,
    State,
    TaskState,
    choice_state,
    fail_state,
    jsonata,
    pass_state,
    refusal_branches,
    refusal_states,
    state_machine,
    succeed_state,
    wait_state,
)
from infra.sweep_turn_states import TAKE_TURN, SweepTurnStates

SWEEP_SECONDS: Final = 240
"""Express executions end after five minutes at the latest."""

DELAY_OF_THE_RING: Final = "$states.input.after"
"""What the doorbell says: seconds until what it rang for is stored. The clock says nothing."""

SCALE_UP_DUE: Final = """$cluster_survey.pendingPods > 0 or $cluster_survey.unwatchedClaims > 0 or $cluster_survey.staleClaims > 0
  or $cluster_survey.closedNodes > 0
  or $instance_survey.leaseBroken or $instance_survey.deadWaves > 0 or $instance_survey.openLaunches > 0"""

EMPTY_NODES: Final = '$instance_survey.retire[reason = "empty"]'
OTHER_NODES: Final = '$instance_survey.retire[reason != "empty"]'

DUE_CONDITIONS: Final[Mapping[str, str]] = {
    "emptiness": f"$count({EMPTY_NODES}) > 0",
    "retirement": f"$count({OTHER_NODES}) > 0",
    "scaleUp": SCALE_UP_DUE,
    "garbage": "$count($instance_survey.garbage) > 0",
    "rebuilding": "$count($instance_survey.rebuild) > 0",
}

INITIAL_VARIABLES: Final[Mapping[str, Any]] = {
    "turn": 1,
    "failure": {},
    "cluster_survey": {"refused": ""},
    "instance_survey": {},
    "paused": False,
    "due": dict.fromkeys(DUE_CONDITIONS, False),
}
"""What the ends read, whichever way leads to them."""

ANYTHING_DUE: Final = " or ".join(f"$due.{name}" for name in DUE_CONDITIONS)
GIVE_BACK_TURN: Final = "Give the turn back"

NOW_IN_NAMES: Final = "$now('[Y0001][M01][D01]T[H01][m01][s01]')"
NOW_IN_MILLISECONDS: Final = "$now('[Y0001][M01][D01]T[H01][m01][s01]-[f001]')"
"""Two sweeps may start a retirement in one second, each for claims of its own: deletions ring for a sweep between those of the clock."""


@dataclass(frozen=True, slots=True)
class SweepParts:
    """What the machine is made of besides its states."""

    integrations: ServiceIntegrations
    cluster: str
    scale_up_arn: str
    retire_arn: str
    retire_empty_arn: str
    table: str
    functions: Mapping[str, CalledFunction]


def sweep_definition(parts: SweepParts) -> State:
    """The whole machine."""
    states = {
        **_taking_turns(parts),
        **_looking(parts),
        **_retiring(parts),
        **_scaling_up(parts),
        **_tidying(parts),
        **_ends(parts),
    }
    return state_machine(states, comment="The minute's look at the cluster and at EC2", timeout=SWEEP_SECONDS)


def _taking_turns(parts: SweepParts) -> Mapping[str, State]:
    # An update whose answer was lost may have taken the turn
    failing = [Catch([EVERY_ERROR], GIVE_BACK_TURN)]
    turn = {"waits": 0}
    return {
        "Who rang?": choice_state(
            {f"$exists({DELAY_OF_THE_RING})": "Let the deletion be stored"}, otherwise=TAKE_TURN, assign=turn
        ),
        "Let the deletion be stored": wait_state(jsonata(DELAY_OF_THE_RING), next=TAKE_TURN),
        **_turn(parts).take(next="Describe the cluster", assign=INITIAL_VARIABLES, catch=failing),
    }


def _turn(parts: SweepParts) -> SweepTurnStates:
    return SweepTurnStates(parts.integrations, parts.table, SWEEP_SECONDS)


def _looking(parts: SweepParts) -> Mapping[str, State]:
    failing = [Catch([EVERY_ERROR], GIVE_BACK_TURN)]
    pause = parts.integrations.unless_paused(parts.cluster, next="Decide what is due", catch=failing)
    return {
        "Describe the cluster": parts.integrations.describe_cluster(
            parts.cluster, next="Survey the cluster", assign={}, catch=failing
        ),
        "Survey the cluster": parts.integrations.invoke(
            parts.functions["survey_cluster"],
            {},
            next="Who is in charge?",
            assign={"cluster_survey": jsonata("$states.result.Payload")},
            catch=failing,
        ),
        "Who is in charge?": choice_state(
            {"$cluster_survey.refused != ''": GIVE_BACK_TURN}, otherwise="Survey the instances"
        ),
        "Survey the instances": parts.integrations.invoke(
            parts.functions["survey_instances"],
            {"survey": jsonata("$cluster_survey.survey"), "retire": jsonata("[$cluster_survey.retire]")},
            next="Read the pause",
            assign={"instance_survey": jsonata("$states.result.Payload")},
            catch=failing,
        ),
        "Read the pause": pause["Read the pause"],
        "Is Joiner paused?": choice_state({"$paused": GIVE_BACK_TURN}, otherwise="Decide what is due"),
        "Decide what is due": pass_state(
            assign={"due": {name: jsonata(condition) for name, condition in DUE_CONDITIONS.items()}},
            output={"reasons": jsonata("[$cluster_survey.reasons, $instance_survey.reasons]")},
            next="Is anything due?",
        ),
        "Is anything due?": choice_state({ANYTHING_DUE: "Are nodes empty?"}, otherwise=GIVE_BACK_TURN),
    }


def _retiring(parts: SweepParts) -> Mapping[str, State]:
    return {
        "Are nodes empty?": choice_state({"$due.emptiness": "Retire empty nodes"}, otherwise="Is a retirement due?"),
        "Retire empty nodes": _start_retirement(
            parts, parts.retire_empty_arn, EMPTY_NODES, next="Is a retirement due?"
        ),
        "Is a retirement due?": choice_state({"$due.retirement": "Start a retirement"}, otherwise="Is a scale-up due?"),
        "Start a retirement": _start_retirement(parts, parts.retire_arn, OTHER_NODES, next="Is a scale-up due?"),
    }


def _start_retirement(parts: SweepParts, machine_arn: str, claims: str, *, next: str) -> State:
    return TaskState(
        resource=parts.integrations.service("states:startExecution"),
        arguments={
            "StateMachineArn": machine_arn,
            "Name": jsonata(f"'retire-' & {NOW_IN_MILLISECONDS} & '-sweep'"),
            "Input": {"reason": "sweep", "claims": jsonata(f"[{claims}]")},
        },
        timeout=10,
        next=next,
        catch=[Catch(EXECUTION_EXISTS, next, kept=False), Catch([EVERY_ERROR], next)],
    ).render()


def _scaling_up(parts: SweepParts) -> Mapping[str, State]:
    return {
        "Is a scale-up due?": choice_state({"$due.scaleUp": "Ring"}, otherwise="Is there garbage?"),
        "Ring": LeaseStates(parts.integrations, parts.table).ring(
            next="Start a scale-up", catch=[Catch([EVERY_ERROR], "Is there garbage?")]
        ),
        "Start a scale-up": TaskState(
            resource=parts.integrations.service("states:startExecution"),
            arguments={
                "StateMachineArn": parts.scale_up_arn,
                "Name": jsonata(f"'up-' & {NOW_IN_NAMES} & '-sweep'"),
                "Input": {"reason": "sweep", "reasons": jsonata("[$cluster_survey.reasons, $instance_survey.reasons]")},
            },
            timeout=10,
            next="Is there garbage?",
            catch=[Catch(EXECUTION_EXISTS, "Is there garbage?", kept=False), Catch([EVERY_ERROR], "Is there garbage?")],
        ).render(),
    }


def _tidying(parts: SweepParts) -> Mapping[str, State]:
    return {
        "Is there garbage?": choice_state({"$due.garbage": "Collect garbage"}, otherwise="Are claims missing?"),
        "Collect garbage": parts.integrations.invoke(
            parts.functions["collect_garbage"],
            {"instances": jsonata("[$instance_survey.garbage]")},
            next="Are claims missing?",
            catch=[Catch([EVERY_ERROR], "Are claims missing?")],
        ),
        "Are claims missing?": choice_state({"$due.rebuilding": "Rebuild claims"}, otherwise=GIVE_BACK_TURN),
        "Rebuild claims": parts.integrations.invoke(
            parts.functions["rebuild_claims"],
            {"rebuild": jsonata("[$instance_survey.rebuild]")},
            next=GIVE_BACK_TURN,
            catch=[Catch([EVERY_ERROR], GIVE_BACK_TURN)],
        ),
    }


def _ends(parts: SweepParts) -> Mapping[str, State]:
    seen = {"cluster": jsonata("$cluster_survey"), "instances": jsonata("$instance_survey")}
    guard = "$cluster_survey.refused"
    ends = {
        "$exists($failure.Error)": "The sweep failed",
        **refusal_branches(guard),
        "$paused": "Joiner is paused",
        ANYTHING_DUE: "What was due was started",
    }
    return {
        GIVE_BACK_TURN: _turn(parts).give_back(next="How did it end?"),
        "How did it end?": choice_state(ends, otherwise="Nothing is due"),
        **refusal_states(guard),
        "Joiner is paused": succeed_state({"paused": True}),
        "What was due was started": succeed_state({"due": jsonata("$due"), **seen}),
        "Nothing is due": succeed_state(seen),
        "The sweep failed": fail_state(),
    }
