"""States of the sweep machine: every minute it reads the cluster and EC2, and starts what is needed.

States start the other machines, not functions: a function in a VPC cannot reach Step Functions, and the execution shows
why something was started. Before it starts a scale-up it rings, like the doorbell: an execution that holds the lease
plans once more before it releases it.

Each follow-up is started by itself. One that cannot be started stops no other, and the next sweep starts it. Empty
nodes, the most frequent retirement, are retired by an Express execution, whose state transitions are free; other nodes
by a Standard execution.

If more nodes are empty than the budgets allow to retire at once, and a retirement has just begun, the sweep starts
another one, so that they do not wait for the next minute.

Every few minutes a sweep ends with invocations of the functions from a ring to CreateFleet, so that Lambda keeps them
warm. It has given its turn back before, so nothing waits for them. A doorbell that was cold itself, and has started a
scale-up, starts an execution that only invokes them, all at once: they start while the scale-up's first function works.

One sweep runs at a time (`infra/sweep_turn_states.py`): every path gives the turn back before it ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.drift_states import drift_states
from infra.lease_states import LeaseStates
from infra.machine_resources import MachineResources
from infra.service_integrations import CALL_SECONDS, execution_name
from infra.states_language import (
    CAUSE_LIMIT,
    EVERY_ERROR,
    Catch,
    State,
    States,
    TaskState,
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
from infra.sweep_limits import NEXT_SWEEP_SECONDS, SWEEP_TIMEOUT_SECONDS
from infra.sweep_turn_states import TAKE_TURN, SweepTurnStates
from joiner.names import WARM_UP

RING_DELAY: Final = "$states.input.after"
"""JSONata: seconds until the API server has stored the deletion for which the doorbell rang. The schedule passes
none."""

NODES_NEEDED: Final = """$cluster_survey.pendingPods > 0 or $cluster_survey.changedBuffers > 0
  or $cluster_survey.missingReplicas > 0
  or $cluster_survey.unlaunchedClaims > 0
  or $cluster_survey.unwatchedClaims > 0 or $cluster_survey.staleClaims > 0
  or $cluster_survey.closedNodes > 0 or $cluster_survey.unsettledClasses > 0
  or $instance_survey.leaseBroken or $instance_survey.endedWaves > 0 or $instance_survey.openLaunches > 0"""
"""JSONata: whether a scale-up is needed that a disruption waits for."""

SCALE_UP_DUE: Final = f"{NODES_NEEDED} or $cluster_survey.buffersToPlan > 0"

EMPTY_NODES: Final = '$instance_survey.retire[reason = "empty"]'
OTHER_NODES: Final = '$instance_survey.retire[reason != "empty"]'

PROPOSAL_DUE: Final = f"""($cluster_survey.disruption.due and $not({NODES_NEEDED}))"""

DISRUPTION_DUE: Final = f"""$not($instance_survey.disrupting) and ($count($instance_survey.leftDisruptions) > 0
  or $cluster_survey.disruption.staleMarks > 0 or {PROPOSAL_DUE})"""
"""A disruption that was left over is settled in any case. New ones wait until no pod needs a new node, because the
proposal counts on the free resources of existing nodes. The virtual pods of unchanged CapacityBuffers are part of the
proposal: a plan for them delays no disruption, because in a busy cluster one is due with every sweep."""

DUE_CONDITIONS: Final[Mapping[str, str]] = {
    "emptiness": f"$count({EMPTY_NODES}) > 0",
    "retirement": f"$count({OTHER_NODES}) > 0",
    "scaleUp": SCALE_UP_DUE,
    "garbage": "$count($instance_survey.garbage) > 0",
    "rebuilding": "$count($instance_survey.rebuild) > 0",
    "disruption": DISRUPTION_DUE,
    "drift": "$cluster_survey.drift.due = true and $instance_survey.described != ''",
    "anotherSweep": "$cluster_survey.emptyLater > 0",
}
"""Each follow-up with the condition (JSONata) under which it is needed. Drift is detected by a later sweep if the
instances could not be stored for it."""

ANYTHING_DUE: Final = " or ".join(f"$due.{name}" for name in DUE_CONDITIONS)

INITIAL_VARIABLES: Final[Mapping[str, Any]] = {
    "turn": 1,
    "failure": {},
    "cluster_survey": {"refused": ""},
    "instance_survey": {},
    "paused": False,
    "due": dict.fromkeys(DUE_CONDITIONS, False),
    "cold": [],
}
"""Variables that the final states read, whichever path leads to them."""

GIVE_BACK_TURN: Final = "Give the turn back"
MORE_EMPTY: Final = "Do more empty nodes wait?"
HOW_IT_ENDED: Final = "How did it end?"

KEEP_WARM: Final = "Keep functions warm"
ONLY_WARM_UP: Final = f"$states.context.Execution.Input.{WARM_UP} = true"
"""JSONata: whether the doorbell started this execution to warm functions up, and for nothing else."""

STARTED_BY_SCHEDULE: Final = "$not($exists($states.context.Execution.Input.after))"
"""JSONata: whether no deletion and no other sweep started this one."""

NOT_WARMED: Final = f"""$states.input.function & " is not kept warm: " & $states.errorOutput.Error & ": "
  & $substring($exists($states.errorOutput.Cause) ? $states.errorOutput.Cause : "", 0, {CAUSE_LIMIT})"""
"""JSONata: the failed warm-up of one function as a sentence."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The functions that are kept warm, by their ARNs, in the order in which a scale-up invokes them.

    The first scheduled sweep of each `every_minutes` invokes them, or none does. A cold doorbell has all but the first
    invoked, which its scale-up invokes at once."""

    functions: tuple[str, ...]
    every_minutes: int | None
    sweep_minutes: int

    @property
    def due(self) -> str:
        """JSONata: whether this sweep invokes them, by the time of its start."""
        if self.every_minutes is None:
            return "false"
        started = "$toMillis($states.context.Execution.StartTime)"
        return f"{STARTED_BY_SCHEDULE} and $floor({started} / 60000) % {self.every_minutes} < {self.sweep_minutes}"


@dataclass(frozen=True, slots=True)
class SweepResources(MachineResources):
    """What the states refer to."""

    scale_up_arn: str
    retire_arn: str
    retire_empty_arn: str
    disrupt_arn: str
    sweep_arn: str
    warm_up: WarmUp

    @property
    def turn(self) -> SweepTurnStates:
        """The states of the turn."""
        return SweepTurnStates(self.integrations, self.table, SWEEP_TIMEOUT_SECONDS)


def sweep_definition(resources: SweepResources) -> State:
    """Return the definition of the machine."""
    states = {
        **_turn_states(resources),
        **_survey_states(resources),
        **_decision_states(),
        **_retirement_states(resources),
        **_scale_up_states(resources),
        **_repair_states(resources),
        **drift_states(resources, next="Is a disruption due?"),
        **_disruption_states(resources),
        **_repetition_states(resources),
        **_warm_up_states(resources),
        **_final_states(resources),
    }
    return state_machine(states, comment="Checks the cluster and EC2 every minute", timeout=SWEEP_TIMEOUT_SECONDS)


def _turn_states(resources: SweepResources) -> States:
    return {
        "What started it?": choice_state(
            {ONLY_WARM_UP: KEEP_WARM, f"$exists({RING_DELAY})": "Let the deletion be stored"},
            otherwise=TAKE_TURN,
            assign={"waits": 0, **INITIAL_VARIABLES},
        ),
        "Let the deletion be stored": wait_state(jsonata(RING_DELAY), next=TAKE_TURN),
        # An update whose response was lost may have taken the turn
        **resources.turn.take(next="Describe the cluster", catch=[Catch([EVERY_ERROR], GIVE_BACK_TURN)]),
    }


def _warm_up_states(resources: SweepResources) -> States:
    """Keep the functions of scale-ups warm, unless the sweep failed or Joiner launches nothing. One that cannot be
    invoked changes nothing; the result of the sweep names it. A ring that finds its function cold starts an execution
    that does only this, also while Joiner is paused: the ring does not know.
    """
    launching = "$not($paused) and $cluster_survey.refused = ''"
    return {
        "Is a warm-up due?": choice_state(
            {
                "$exists($failure.Error)": HOW_IT_ENDED,
                f"{launching} and {resources.warm_up.due}": KEEP_WARM,
            },
            otherwise=HOW_IT_ENDED,
        ),
        KEEP_WARM: _warm_up(resources),
    }


def _warm_up(resources: SweepResources) -> State:
    """Invoke the functions at once without a task, and assign the sentences of those that failed."""
    stays_cold = "It stays cold"
    invocation = TaskState(
        resource=resources.integrations.service("lambda:invoke"),
        arguments={"FunctionName": jsonata("$states.input.function"), "Payload": {WARM_UP: True}},
        timeout=CALL_SECONDS,
        output="",
        catch=[Catch([EVERY_ERROR], stays_cold, kept=False, output=jsonata(NOT_WARMED))],
    )
    first, *others = (f"'{arn}'" for arn in resources.warm_up.functions)
    of_ring, of_sweep = ", ".join(others), ", ".join((first, *others))
    return map_state(
        f"{ONLY_WARM_UP} ? [{of_ring}] : [{of_sweep}]",
        selector={"function": jsonata("$states.context.Map.Item.Value")},
        concurrency=len(resources.warm_up.functions),
        states={"Warm up one function": invocation.render(), stays_cold: pass_state()},
        assign={"cold": jsonata("[$states.result[$ != '']]")},
        next=HOW_IT_ENDED,
        catch=[Catch([EVERY_ERROR], HOW_IT_ENDED, kept=False)],
    )


def _survey_states(resources: SweepResources) -> States:
    failing = [Catch([EVERY_ERROR], GIVE_BACK_TURN)]
    return {
        "Describe the cluster": resources.integrations.describe_cluster(
            resources.cluster, next="Read the pause", assign={}, catch=failing
        ),
        # The survey reports a pause on the pools; everything that a sweep starts reads the pause itself
        "Read the pause": resources.integrations.read_pause(
            resources.cluster, next="Survey the cluster", catch=failing
        ),
        "Survey the cluster": resources.integrations.invoke(
            resources.functions["survey_cluster"],
            {"paused": jsonata("$paused")},
            next="Why was it refused?",
            assign={"cluster_survey": jsonata("$states.result.Payload")},
            catch=failing,
        ),
        "Why was it refused?": choice_state(
            {"$cluster_survey.refused != ''": GIVE_BACK_TURN}, otherwise="Survey the instances"
        ),
        "Survey the instances": resources.integrations.invoke(
            resources.functions["survey_instances"],
            {
                "survey": jsonata("$cluster_survey.survey"),
                "retire": jsonata("[$cluster_survey.retire]"),
                "drift": jsonata("$cluster_survey.drift.due = true"),
                "disruptions": jsonata("[$cluster_survey.disruption.executions]"),
            },
            next="Is Joiner paused?",
            assign={"instance_survey": jsonata("$states.result.Payload")},
            catch=failing,
        ),
    }


def _decision_states() -> States:
    return {
        "Is Joiner paused?": choice_state({"$paused": GIVE_BACK_TURN}, otherwise="Decide what is due"),
        "Decide what is due": pass_state(
            assign={"due": {name: jsonata(condition) for name, condition in DUE_CONDITIONS.items()}},
            output={"reasons": jsonata("[$cluster_survey.reasons, $instance_survey.reasons]")},
            next="Is anything due?",
        ),
        "Is anything due?": choice_state({ANYTHING_DUE: "Are nodes empty?"}, otherwise=GIVE_BACK_TURN),
    }


def _retirement_states(resources: SweepResources) -> States:
    return {
        "Are nodes empty?": choice_state({"$due.emptiness": "Retire empty nodes"}, otherwise="Is a retirement due?"),
        "Retire empty nodes": _start_retirement(
            resources, resources.retire_empty_arn, EMPTY_NODES, next="Is a retirement due?"
        ),
        "Is a retirement due?": choice_state({"$due.retirement": "Start a retirement"}, otherwise="Is a scale-up due?"),
        "Start a retirement": _start_retirement(
            resources, resources.retire_arn, OTHER_NODES, next="Is a scale-up due?"
        ),
    }


def _start_retirement(resources: SweepResources, machine_arn: str, claims: str, *, next: str) -> State:
    """Start a retirement of `claims` (JSONata). Two sweeps may each start one within a second: deletions start sweeps,
    too."""
    return resources.integrations.start_execution(
        machine_arn,
        execution_name("retire", "sweep", milliseconds=True),
        {"reason": "sweep", "claims": jsonata(f"[{claims}]")},
        next=next,
        on_error=next,
        keep_error=True,
    )


def _scale_up_states(resources: SweepResources) -> States:
    return {
        "Is a scale-up due?": choice_state({"$due.scaleUp": "Ring"}, otherwise="Is there garbage?"),
        "Ring": LeaseStates(resources.integrations, resources.table).ring(
            next="Start a scale-up", catch=[Catch([EVERY_ERROR], "Is there garbage?")]
        ),
        "Start a scale-up": resources.integrations.start_execution(
            resources.scale_up_arn,
            execution_name("up", "sweep"),
            {"reason": "sweep", "reasons": jsonata("[$cluster_survey.reasons, $instance_survey.reasons]")},
            next="Is there garbage?",
            on_error="Is there garbage?",
            keep_error=True,
        ),
    }


def _repair_states(resources: SweepResources) -> States:
    return {
        "Is there garbage?": choice_state({"$due.garbage": "Collect garbage"}, otherwise="Are claims missing?"),
        "Collect garbage": resources.integrations.invoke(
            resources.functions["collect_garbage"],
            {"instances": jsonata("[$instance_survey.garbage]")},
            next="Are claims missing?",
            catch=[Catch([EVERY_ERROR], "Are claims missing?")],
        ),
        "Are claims missing?": choice_state(
            {"$due.rebuilding": "Rebuild claims"}, otherwise="Is drift to be detected?"
        ),
        "Rebuild claims": resources.integrations.invoke(
            resources.functions["rebuild_claims"],
            {"rebuild": jsonata("[$instance_survey.rebuild]")},
            next="Is drift to be detected?",
            catch=[Catch([EVERY_ERROR], "Is drift to be detected?")],
        ),
    }


def _disruption_states(resources: SweepResources) -> States:
    due = "$cluster_survey.disruption"
    return {
        "Is a disruption due?": choice_state({"$due.disruption": "Start a disruption"}, otherwise=MORE_EMPTY),
        "Start a disruption": resources.integrations.start_execution(
            resources.disrupt_arn,
            execution_name("disrupt", "sweep"),
            {
                "digest": jsonata(f"{due}.digest"),
                "left": jsonata("[$instance_survey.leftDisruptions]"),
                "staleMarks": jsonata(f"{due}.staleMarks"),
                "due": jsonata(PROPOSAL_DUE),
            },
            next=MORE_EMPTY,
            on_error=MORE_EMPTY,
            keep_error=True,
        ),
    }


def _repetition_states(resources: SweepResources) -> States:
    """Start another sweep while retirements make place for more empty nodes. It waits for the turn of this one."""
    return {
        MORE_EMPTY: choice_state({"$due.anotherSweep": "Sweep again"}, otherwise=GIVE_BACK_TURN),
        "Sweep again": resources.integrations.start_execution(
            resources.sweep_arn,
            execution_name("sweep", "again"),
            {"after": NEXT_SWEEP_SECONDS, "reason": "more empty nodes than may leave at once"},
            next=GIVE_BACK_TURN,
            on_error=GIVE_BACK_TURN,  # the next scheduled sweep follows
        ),
    }


def _final_states(resources: SweepResources) -> States:
    surveys = {
        "cluster": jsonata("$cluster_survey"),
        "instances": jsonata("$instance_survey"),
        "coldFunctions": jsonata("$cold"),
    }
    refusal = "$cluster_survey.refused"
    ends = {
        ONLY_WARM_UP: "Functions are warm",
        "$exists($failure.Error)": "The sweep failed",
        **refusal_branches(refusal),
        "$paused": "Joiner is paused",
        ANYTHING_DUE: "What was due was started",
    }
    return {
        GIVE_BACK_TURN: resources.turn.give_back(next="Is a warm-up due?"),
        HOW_IT_ENDED: choice_state(ends, otherwise="Nothing is due"),
        "Functions are warm": succeed_state({"coldFunctions": jsonata("$cold")}),
        **refusal_states(refusal),
        "Joiner is paused": succeed_state({"paused": True}),
        "What was due was started": succeed_state({"due": jsonata("$due"), **surveys}),
        "Nothing is due": succeed_state(surveys),
        "The sweep failed": fail_state(),
    }
