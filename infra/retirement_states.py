"""RETIRE, state by state: from claims that have to go until their instances, their nodes and they themselves are gone.

What may be taken back begins under the lease, what may not begins at once. Then each wave goes round: pods are asked to leave, instances
whose nodes are drained are terminated, nodes whose instances are gone are forgotten; a node that is blocked keeps no other. After half an
hour the execution ends and says what it waited for: all that matters stands on the claims, and the sweep starts the next one. It ends
between two looks, too, when somebody pauses Joiner.

Nodes that are empty go by the same states in an Express execution, whose transitions cost nothing. It has `EXPRESS_LIMITS`, because AWS
ends it after five minutes. What is not gone by then has a deleted claim, and goes on as any other whose claim was deleted.

Express runs an execution at least once: the same one, under the same ARN, may run twice, and at one time. The ARN owns the lease and the
claims, so neither run keeps the other out, and need not: each taking of the lease has a number of its own, and a run that finds another
number than its own leaves its claims alone; what one run has begun or done, each function finds begun or done, as after any retry. If one
run gives back the lease while the other is beginning, a plan may count on a node that is closed in the same second: a pod that comes to
such a node opens it again, and one that comes too late is planned once more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.lease_states import LEASE_LOST, LeaseStates, attribute
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_EXISTS,
    FAILURE,
    NOW_SECONDS,
    CalledFunction,
    Catch,
    ServiceIntegrations,
    State,
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

VOLUNTARY_REASONS: Final = '["empty", "expired"]'
"""Reasons that may be taken back: they begin under the lease, where no pod is being given their nodes."""

INVOLUNTARY_CLAIMS: Final = f"$asked[$not(reason in {VOLUNTARY_REASONS})]"
VOLUNTARY_CLAIMS: Final = f"$asked[reason in {VOLUNTARY_REASONS}]"

CLAIM_GROUPS: Final = f"""$append($append(
  $count({INVOLUNTARY_CLAIMS}) > 0 ? [{{"voluntary": false, "claims": [{INVOLUNTARY_CLAIMS}], "noted": false}}] : [],
  $count({VOLUNTARY_CLAIMS}) > 0 ? [{{"voluntary": true, "claims": [{VOLUNTARY_CLAIMS}], "noted": false}}] : []
), $noted ? [{{"voluntary": false, "claims": [], "noted": true}}] : [])"""
"""What must go, what may, and what was noted of interrupted instances, which *Begin retirement* reads itself; a filter over the first two
would make one group of both (JSONata keeps the array that it filters)."""

MAX_DUE_WAIT_SECONDS: Final = 90
"""Seconds until whatever is asked for is due: the sweep asks no sooner (`AHEAD` in `joiner.lifecycle.emptiness`)."""

SECONDS_UNTIL_DUE: Final = (
    f"$max([0, $min([{MAX_DUE_WAIT_SECONDS}, $max($append([0], $wanted.notBefore)) - {NOW_SECONDS}])])"
)

MAX_NOTES_WAIT_SECONDS: Final = 5
"""Seconds: an execution for interrupted instances starts at most so long before the second from which it reads (`ATTEMPTS` in
`joiner.adapters.executions`)."""

SECONDS_UNTIL_NOTED: Final = f"$max([0, $min([{MAX_NOTES_WAIT_SECONDS}, $notesFrom - {NOW_SECONDS}])])"

LEASE_ATTEMPTS: Final = 20
RETRY_SECONDS: Final = 3
"""A scale-up holds the lease for seconds; whoever finds none for a minute leaves it to the next sweep."""

LAUNCH_RECORD_ATTEMPTS: Final = 10
"""An instance may be lost before its launch is recorded: the claim cannot go yet, and seconds later it can."""

CONCURRENT_WAVES: Final = 5

MAX_ROUNDS_OF_A_WAVE: Final = 90
"""Looks after which a wave ends although it gets on. All waves share one history, which ends at 25,000 events: a look at which every
function has something to do makes 41, and 100 claims that must go and that may make six waves at most."""

TERMINATION_POLL_SECONDS: Final = 15
"""Seconds between two looks at most while instances shut down."""

SHORT_PAUSE_SECONDS: Final = 4
ROUNDS_BETWEEN_PAUSE_CHECKS: Final = 5
"""Whether Joiner is paused is asked before each look that is more than `SHORT_PAUSE_SECONDS` seconds away, and before every fifth."""

STAGE_OF_STATE: Final = {
    "Evict pods": "draining",
    "Terminate instances": "drained",
    "Confirm termination": "terminating",
    "Forget the nodes": "terminated",
}
"""The stage that claims have which a state works on."""

SUMMARY: Final = """{
  "refused": [$states.result.refused, ""][0],
  "retired": [$states.result.waves.claims[stage = "forgotten"].claim],
  "waiting": [$states.result.waves.claims[stage != "forgotten"].{"claim": claim, "node": node, "why": why}],
  "leftOut": [$states.result.leftOut],
  "failures": [$states.result.failed, $states.result.waves.failed]
}"""


@dataclass(frozen=True, slots=True)
class RetirementLimits:
    """How long an execution goes on, in seconds: after `goes_on_for` it ends although nodes are blocked, `seconds` bound whatever else may
    happen, and while pods leave two looks are `seldom` apart at most."""

    seconds: int
    goes_on_for: int
    seldom: int
    looks: int = MAX_ROUNDS_OF_A_WAVE

    @property
    def over(self) -> str:
        """JSONata: is this look the last?"""
        elapsed = "$millis() - $toMillis($states.context.Execution.StartTime)"
        return f"$look >= {self.looks} or {elapsed} > {self.goes_on_for * 1000}"

    @property
    def pause(self) -> str:
        """JSONata: seconds until the next look."""
        return f'$min([$pause, $count($wave[stage = "terminating"]) > 0 ? {TERMINATION_POLL_SECONDS} : {self.seldom}])'

    @property
    def next_look(self) -> Mapping[str, str]:
        """What is assigned before it."""
        return {"look": jsonata("$look + 1"), "pause": jsonata(f"$min([2 * $pause, {self.seldom}])")}


STANDARD_LIMITS: Final = RetirementLimits(seconds=3600, goes_on_for=1800, seldom=60)
"""Of a Standard execution."""

EXPRESS_LIMITS: Final = RetirementLimits(seconds=290, goes_on_for=225, seldom=15)
"""Of an Express execution, which AWS ends after 300 seconds. Its last look begins after four minutes at most, and has most of another one;
before its first it may wait for 90 seconds until it is due, and for 60 for the lease."""


@dataclass(frozen=True, slots=True)
class RetirementParts:
    """What the machine is made of besides its states."""

    integrations: ServiceIntegrations
    cluster: str
    table: str
    scale_up_arn: str
    functions: Mapping[str, CalledFunction]
    limits: RetirementLimits = STANDARD_LIMITS


def retirement_definition(parts: RetirementParts) -> State:
    """The whole machine."""
    failing = [Catch([EVERY_ERROR], "The retirement failed")]
    groups = map_state(
        CLAIM_GROUPS,
        selector={"group": jsonata("$states.context.Map.Item.Value")},
        at_once=2,
        states={**_beginning(parts), **_ringing(parts), **_group_ends(parts)},
        next="What came of it?",
        catch=failing,
    )
    states: Mapping[str, State] = {
        **parts.integrations.unless_paused(parts.cluster, next="Describe the cluster", catch=failing),
        "Describe the cluster": parts.integrations.describe_cluster(
            parts.cluster,
            next="Retire",
            assign={
                "turn": 1,
                "asked": jsonata("[$states.context.Execution.Input.claims]"),
                "noted": jsonata("true in [$states.context.Execution.Input.noted]"),
                "notesFrom": jsonata("[$states.context.Execution.Input.notBefore, 0][0]"),
            },
            catch=failing,
        ),
        "Retire": {
            **groups,
            "Assign": {"told": jsonata(SUMMARY), "paused": jsonata("true in [$states.result.waves.paused]")},
        },
        "What came of it?": choice_state(
            {
                **refusal_branches("$told.refused"),
                "$count($told.failures) > 0": "Name the failure",
                "$paused": "Joiner is paused",
                "$count($told.waiting) > 0": "Waiting for what keeps nodes",
            },
            otherwise="Summarise",
        ),
        **refusal_states("$told.refused"),
        "Waiting for what keeps nodes": succeed_state(jsonata("$told")),
        "Summarise": succeed_state(jsonata("$told")),
        "Name the failure": pass_state(assign={"failure": jsonata("$told.failures[0]")}, next="The retirement failed"),
        "The retirement failed": fail_state(),
    }
    return state_machine(
        states, comment="From claims that have to go until nothing of them is left", timeout=parts.limits.seconds
    )


def _beginning(parts: RetirementParts) -> Mapping[str, State]:
    """No variable of an outer scope may be set in a Map: an error travels as the state's output."""
    return {
        "Is it voluntary?": choice_state(
            {
                "$states.input.group.voluntary": "Wait until it is due",
                "$states.input.group.noted": "Wait for the notes",
            },
            otherwise="Begin retirement",
            assign={
                "wanted": jsonata("$states.input.group.claims"),
                "readsNotes": jsonata("$states.input.group.noted"),
                "leaseNumber": 0,
                "ringsNoted": 0,
                "ringsNow": 0,
                "tries": 0,
                "begun": {"refused": "", "waves": [], "begun": 0, "moving": 0, "later": 0, "leftOut": []},
            },
        ),
        "Wait until it is due": wait_state(jsonata(SECONDS_UNTIL_DUE), next="Take the lease"),
        "Take the lease": _take_the_lease(parts),
        "Is it worth another try?": choice_state(
            {f"$tries < {LEASE_ATTEMPTS}": "Let the holder work"}, otherwise="Left for the next sweep"
        ),
        "Let the holder work": wait_state(RETRY_SECONDS, next="Try again"),
        "Try again": pass_state(assign={"tries": jsonata("$tries + 1")}, next="Take the lease"),
        "Left for the next sweep": pass_state(
            output={"leftOut": jsonata('$wanted.{"claim": claim, "why": "the lease was taken"}'), "waves": []}
        ),
        "Begin under the lease": _begin(parts, next="Release the lease"),
        "Release the lease": _release_the_lease(parts, next="What has begun?"),
        "Wait for the notes": wait_state(jsonata(SECONDS_UNTIL_NOTED), next="Begin retirement"),
        "Begin retirement": _begin(parts, next="What has begun?"),
        "Give back the lease": _release_the_lease(parts, next="The group failed"),
        "The group failed": pass_state(output={"failed": jsonata(FAILURE), "waves": [], "leftOut": []}),
    }


def _begin(parts: RetirementParts, *, next: str) -> State:
    return parts.integrations.invoke(
        parts.functions["begin_retirement"],
        {"lease": {"number": jsonata("$leaseNumber")}, "claims": jsonata("$wanted"), "noted": jsonata("$readsNotes")},
        next=next,
        assign={"begun": jsonata("$states.result.Payload")},
        catch=[
            Catch(LEASE_LOST, "Left for the next sweep", kept=False),
            Catch([EVERY_ERROR], "Give back the lease", kept=False),
        ],
    )


AFTER_BEGINNING: Final[Mapping[str, str]] = {
    "$count($begun.waves) > 0": "Retire wave by wave",
    f"$begun.later > 0 and $leaseNumber = 0 and $tries < {LAUNCH_RECORD_ATTEMPTS}": "Let launches be recorded",
}


def _ringing(parts: RetirementParts) -> Mapping[str, State]:
    """Pods that have to move want nodes, and whoever rang while the lease was held found a holder who plans nothing."""
    return {
        "What has begun?": choice_state(
            {"$begun.moving > 0 or $ringsNow != $ringsNoted": "Ring for the pods", **AFTER_BEGINNING},
            otherwise="Nothing has begun",
        ),
        "Ring for the pods": _lease(parts).ring(
            next="Start a scale-up",
            catch=[
                Catch([EVERY_ERROR], "Has anything begun?", kept=False)
            ],  # the sweep sees pods that have to move, too
        ),
        "Start a scale-up": TaskState(
            resource=parts.integrations.service("states:startExecution"),
            arguments={
                "StateMachineArn": parts.scale_up_arn,
                "Name": jsonata("'up-' & $now('[Y0001][M01][D01]T[H01][m01][s01]') & '-retire'"),
                "Input": {"reason": "pods of retiring nodes"},
            },
            timeout=10,
            next="Has anything begun?",
            catch=[
                Catch(EXECUTION_EXISTS, "Has anything begun?", kept=False),
                Catch([EVERY_ERROR], "Has anything begun?", kept=False),
            ],
        ).render(),
    }


def _group_ends(parts: RetirementParts) -> Mapping[str, State]:
    waves = map_state(
        "$begun.waves",
        selector={"claims": jsonata("$states.context.Map.Item.Value")},
        at_once=CONCURRENT_WAVES,
        states=_wave(parts),
        next="Tell of the group",
        catch=[Catch([EVERY_ERROR], "The waves failed", kept=False)],
    )
    return {
        "Has anything begun?": choice_state(AFTER_BEGINNING, otherwise="Nothing has begun"),
        "Let launches be recorded": wait_state(RETRY_SECONDS, next="Begin once more"),
        "Begin once more": pass_state(assign={"tries": jsonata("$tries + 1")}, next="Begin retirement"),
        "Nothing has begun": pass_state(
            output={"refused": jsonata("$begun.refused"), "leftOut": jsonata("$begun.leftOut"), "waves": []}
        ),
        "Retire wave by wave": waves,
        "The waves failed": pass_state(
            output={"failed": jsonata(FAILURE), "leftOut": jsonata("$begun.leftOut"), "waves": []}
        ),
        "Tell of the group": pass_state(
            output={"leftOut": jsonata("$begun.leftOut"), "waves": jsonata("$states.input")}
        ),
    }


def _wave(parts: RetirementParts) -> Mapping[str, State]:
    """Each claim of a wave is as far as its stage says; each function takes on those at its own stage, and hands back all.

    A transition costs money: after each function one choice says where there is work, and no state is passed through in vain.
    """
    return {
        "How far has each come?": choice_state(
            {f'$count($states.input.claims[stage = "{stage}"]) > 0': state for state, stage in STAGE_OF_STATE.items()},
            otherwise="Tell of the wave",
            assign={"wave": jsonata("$states.input.claims"), "pause": 1, "look": 1},
        ),
        "Evict pods": _step(
            parts,
            "evict_pods",
            next="Is any node drained?",
            payload={"pause": jsonata("$pause")},
            assign={"pause": jsonata("$states.result.Payload.pause")},
        ),
        "Is any node drained?": _go_on(parts, "Terminate instances", "Confirm termination", "Forget the nodes"),
        "Terminate instances": _step(parts, "terminate_instances", next="Confirm termination"),
        "Confirm termination": _step(parts, "confirm_termination", next="Is any instance gone?"),
        "Is any instance gone?": _go_on(parts, "Forget the nodes"),
        "Forget the nodes": _step(parts, "forget_nodes", next="Is anything left?"),
        "Is anything left?": _go_on(parts),
        "Wait": wait_state(jsonata(parts.limits.pause), assign=parts.limits.next_look, next="Where is there work?"),
        "Wait longer": wait_state(
            jsonata(parts.limits.pause), assign=parts.limits.next_look, next="Read the pause again"
        ),
        **parts.integrations.unless_paused_meanwhile(
            parts.cluster, next="Where is there work?", paused="The wave is paused", failed="The wave failed"
        ),
        "Where is there work?": _go_on(parts, *STAGE_OF_STATE),
        "Tell of the wave": pass_state(output={"claims": jsonata("$wave")}),
        "The wave is paused": pass_state(output={"claims": jsonata("$wave"), "paused": True}),
        "The wave failed": pass_state(output={"claims": jsonata("$wave"), "failed": jsonata(FAILURE)}),
    }


def _go_on(parts: RetirementParts, *states: str) -> State:
    """To the first of these states that has work; the wave's end; or a wait, now and then with a look at the pause."""
    return choice_state(
        {
            **{f'$count($wave[stage = "{STAGE_OF_STATE[state]}"]) > 0': state for state in states},
            '$count($wave[stage != "forgotten"]) = 0': "Tell of the wave",
            parts.limits.over: "Tell of the wave",
            f"$pause > {SHORT_PAUSE_SECONDS} or $look % {ROUNDS_BETWEEN_PAUSE_CHECKS} = 0": "Wait longer",
        },
        otherwise="Wait",
    )


def _step(
    parts: RetirementParts,
    name: str,
    *,
    next: str,
    payload: Mapping[str, Any] | None = None,
    assign: Mapping[str, Any] | None = None,
) -> State:
    return parts.integrations.invoke(
        parts.functions[name],
        {"round": jsonata("$look"), "claims": jsonata("$wave"), **(payload or {})},
        next=next,
        assign={"wave": jsonata("$states.result.Payload.claims"), **(assign or {})},
        catch=[Catch([EVERY_ERROR], "The wave failed", kept=False)],
    )


def _lease(parts: RetirementParts) -> LeaseStates:
    return LeaseStates(parts.integrations, parts.table)


def _take_the_lease(parts: RetirementParts) -> State:
    return _lease(parts).take(
        next="Begin under the lease",
        assign={
            "leaseNumber": attribute("leaseNumber"),
            "ringsNoted": attribute("rings"),
            "ringsNow": attribute("rings"),
        },
        catch=[
            Catch(CONDITION_FAILED, "Is it worth another try?", kept=False),
            Catch([EVERY_ERROR], "Give back the lease", kept=False),
        ],
    )


def _release_the_lease(parts: RetirementParts, *, next: str) -> State:
    """The lease goes whatever rang: whoever comes here starts a scale-up if somebody did. One that is not ours stays where it is."""
    return _lease(parts).give_back(
        next=next,
        assign={"ringsNow": attribute("rings")},
        output=jsonata("$states.input"),
        catch=[
            Catch(errors, next, kept=False, output=jsonata("$states.input"))
            for errors in (CONDITION_FAILED, [EVERY_ERROR])
        ],
    )
