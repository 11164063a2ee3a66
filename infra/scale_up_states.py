"""SCALE UP, state by state: from a ring to nodes that run the pods it was about.

Under the lease: look, plan, record, launch. The lease is given back before any node boots, and only if nobody rang since the last look;
otherwise the same execution looks again. Then the execution waits for its nodes, woken by them or by the clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.lease_states import LEASE_LOST, LeaseStates, attribute
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_EXISTS,
    FAILURE,
    REFUSED_BY_KARPENTER,
    CalledFunction,
    Catch,
    Retry,
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
from joiner.item_keys import WAVE, item_key

NO_CATALOGUE: Final = ("NoCatalogue",)
"""What the planner raises before the first refresh is through."""

MAX_REPLANS: Final = 10
"""Plans of one execution around offerings that turned out short; after that the pods wait for the sweep."""

MAX_LAUNCH_GROUPS: Final = 400
"""Launches of one execution after which it plans no more, and another one takes over: one that fails at every try makes 33 events, a look
makes 300 launches at most, and the history ends at 25,000 events."""

THROTTLE_BACKOFF_SECONDS: Final = "$ceil($min([$power(2, $throttles), 16]) * (1 + $random()) / 2)"
"""Whole seconds before the next plan after EC2 throttled a launch: 1 to 2, then up to 4, 8 and 16, half of them by chance, so that several
clusters of an account do not come back together. Always less than what is left of the lease: a function renews it for its own time and
half a minute."""

MAX_ROUNDS: Final = 100
"""Looks of one execution that keeps being rung and finds nothing to launch; then a fresh one takes over, long before the history's end
at 25,000 events."""

REGISTRATION_DELAY_LIMIT_SECONDS: Final = 10
"""Who launched something looks again for so long at most: its nodes are on their way and want to be joined. If it rings on, a fresh
execution takes the lease, or pods that keep coming would keep every node closed."""

AWAIT_NODES_SECONDS: Final = "$registration.registered = 0 ? 15 : 5"
"""No wait for nodes is longer without a look: a ring may be lost. No machine boots in less than fifteen seconds."""

MAY_LOOK_AGAIN: Final = (
    f"$turn <= {MAX_ROUNDS} and "
    f"($not($watching) or $millis() - $launchedAt < {REGISTRATION_DELAY_LIMIT_SECONDS * 1000})"
)
"""May this execution look once more before it sees to its nodes?"""

GATHER_SECONDS: Final = 1
"""Nodes ring in flocks: whoever is woken by one lets the others come. The function waits itself, for a quarter of what a state costs."""

MUST_REPLAN: Final = f"($again or $claims.postponed > 0) and $not($paused) and $replans < {MAX_REPLANS} and $groups < {MAX_LAUNCH_GROUPS}"
"""Shall this execution plan once more, because something was not launched?"""

NODES_HAVE_WAITED: Final = f"$launched > 0 and $millis() - $launchedAt >= {REGISTRATION_DELAY_LIMIT_SECONDS * 1000}"
"""Do nodes wait that were launched before? The sweep finds the pods that are left."""

CONCURRENT_LAUNCHES: Final = 5
"""EC2 lets an account send about two CreateFleet a second; five calls take longer than that."""

EXECUTION_SECONDS: Final = 3600
"""A node that has not joined in 15 minutes is given up; an hour bounds whatever else may happen."""

APPEND_EVENTS: Final = "$append($untold, $states.result.Payload.events)"
"""Keys of events that are told once the lease is given back: two a round at most."""

SUMMARY: Final = """(
  $started := $toMillis($states.context.Execution.StartTime);
  {
    "pods": $pods,
    "nodes": $registration.nodes,
    "pricePerHour": $plan.pricePerHour,
    "lowerBoundPerHour": $plan.lowerBoundPerHour,
    "gap": $plan.gap,
    "launched": $launched,
    "short": $short,
    "failed": $failed,
    "pending": $plan.pendingReasons,
    "podsPlaced": $registration.podsPlaced,
    "placedAsPlanned": $registration.placedAsPlanned,
    "rounds": $turn,
    "paused": $paused,
    "seconds": {
      "untilLaunched": $round(($releasedAt - $started) / 1000, 1),
      "total": $round(($millis() - $started) / 1000, 1)
    }
  }
)"""


@dataclass(frozen=True, slots=True)
class ScaleUpParts:
    """What the machine is made of besides its states."""

    integrations: ServiceIntegrations
    cluster: str
    table: str
    functions: Mapping[str, CalledFunction]


def scale_up_definition(parts: ScaleUpParts) -> State:
    """The whole machine."""
    paused = parts.integrations.unless_paused(
        parts.cluster, next="Describe the cluster", catch=[Catch([EVERY_ERROR], "The scale-up failed")], launching=True
    )
    states = {**paused, **_under_the_lease(parts), **_after_the_lease(parts), **_after_a_failure(parts)}
    return state_machine(states, comment="From pending pods to nodes that run them", timeout=EXECUTION_SECONDS)


def _under_the_lease(parts: ScaleUpParts) -> Mapping[str, State]:
    return {
        "Describe the cluster": parts.integrations.describe_cluster(
            parts.cluster,
            next="Take the lease",
            assign={
                "turn": 1,
                "rings": 0,
                "replans": 0,
                "throttles": 0,
                "paused": False,
                "watching": False,
                "gather": 0,
                "launchedAt": 0,
                "releasedAt": jsonata("$millis()"),
                "pods": 0,
                "plan": {},
                "registration": {},
                "launched": 0,
                "short": 0,
                "failed": 0,
                "groups": 0,
                "untold": [],
            },
            catch=[Catch([EVERY_ERROR], "The scale-up failed")],
        ),
        "Take the lease": _take_the_lease(parts),
        "Joined the running scale-up": succeed_state({"joined": True}),
        "Let pods gather": wait_state(1, next="Find pending pods"),
        "Find pending pods": _leased(
            parts,
            "find_pending_pods",
            {},
            next="Is there anything to do?",
            assign={
                "rings": jsonata("$states.result.Payload.rings"),
                "found": jsonata("$states.result.Payload"),
                "pods": jsonata("$states.result.Payload.pods > $pods ? $states.result.Payload.pods : $pods"),
            },
        ),
        "Is there anything to do?": choice_state(
            {
                "$found.refused != ''": "Step back",
                "$found.asking + $found.unfinished + $found.unwatched > 0": "Resolve node classes",
                "$watching": "Release the lease",
            },
            otherwise="Release the unused lease",
        ),
        "Step back": _give_up_the_lease(parts, next="Who is in charge?", on_error="Who is in charge?"),
        "Who is in charge?": choice_state(refusal_branches("$found.refused"), otherwise=REFUSED_BY_KARPENTER),
        **refusal_states("$found.refused"),
        "Release the unused lease": _release_the_lease(parts, next="Summarise"),
        "Resolve node classes": _leased(
            parts,
            "resolve_node_classes",
            {"snapshot": jsonata("$found.snapshot")},
            next="Plan capacity",
            assign={"classes": jsonata("$states.result.Payload.classes")},
        ),
        "Plan capacity": _leased(
            parts,
            "plan_capacity",
            {"snapshot": jsonata("$found.snapshot"), "classes": jsonata("$classes")},
            next="Record node claims",
            assign={"plan": jsonata("$states.result.Payload")},
            retry=[Retry(NO_CATALOGUE, attempts=6, interval=5)],
        ),
        "Record node claims": _leased(
            parts,
            "record_node_claims",
            {"plan": jsonata("$plan.plan"), "classes": jsonata("$classes"), "snapshot": jsonata("$found.snapshot")},
            next="Launch instances",
            assign={"claims": jsonata("$states.result.Payload"), "untold": jsonata(APPEND_EVENTS)},
        ),
        "Launch instances": _launch_instances(parts),
        "Record launches": _leased(
            parts,
            "record_launches",
            {
                "launches": jsonata("$claims.launches"),
                "plan": jsonata("$plan.plan"),
                "snapshot": jsonata("$found.snapshot"),
            },
            next="Did offerings turn out short?",
            assign={
                "watching": True,
                "untold": jsonata(APPEND_EVENTS),
                "launchedAt": jsonata("$watching ? $launchedAt : $millis()"),
                "again": jsonata("$states.result.Payload.again"),
                "later": jsonata("$states.result.Payload.later = true"),
                "throttles": jsonata("$states.result.Payload.later = true ? $throttles + 1 : 0"),
                "launched": jsonata("$launched + $states.result.Payload.launched"),
                "short": jsonata("$short + $states.result.Payload.short"),
                "failed": jsonata("$failed + $states.result.Payload.failed"),
            },
        ),
        "Did offerings turn out short?": choice_state(
            {
                f"$later and {NODES_HAVE_WAITED} and $claims.postponed = 0": "Release the lease",
                f"$later and {MUST_REPLAN}": "Give EC2 time",
                MUST_REPLAN: "Plan around them",
                "$claims.postponed > 0 and $not($paused)": "Hand over",
            },
            otherwise="Release the lease",
        ),
        "Give EC2 time": wait_state(jsonata(THROTTLE_BACKOFF_SECONDS), next="Plan around them"),
        "Plan around them": pass_state(
            assign={"turn": jsonata("$turn + 1"), "replans": jsonata("$replans + 1")}, next="Find pending pods"
        ),
        "Release the lease": _release_the_lease(parts, next="Check registration"),
        "Is it still time?": choice_state({MAY_LOOK_AGAIN: "Let pods gather"}, otherwise="Hand over"),
        "Hand over": _give_up_the_lease(parts, next="Start the next scale-up", on_error="Are nodes on their way?"),
        "Start the next scale-up": _start_another(
            parts, next="Are nodes on their way?", on_error="Are nodes on their way?"
        ),
    }


def _after_the_lease(parts: ScaleUpParts) -> Mapping[str, State]:
    return {
        "Are nodes on their way?": choice_state({"$watching": "Check registration"}, otherwise="Summarise"),
        "Check registration": parts.integrations.invoke(
            parts.functions["check_registration"],
            {
                "wave": jsonata("$states.context.Execution.Name"),
                "gather": jsonata("$gather"),
                "events": jsonata("$untold"),
            },
            next="Have all nodes joined?",
            assign={"registration": jsonata("$states.result.Payload"), "untold": []},
            catch=[Catch([EVERY_ERROR], "Release after a failure")],
        ),
        "Have all nodes joined?": choice_state({"$registration.done": "Summarise"}, otherwise="Await nodes"),
        "Await nodes": TaskState(
            resource=parts.integrations.service("aws-sdk:dynamodb:updateItem.waitForTaskToken"),
            arguments={
                "TableName": parts.table,
                "Key": item_key(WAVE, jsonata("$states.context.Execution.Name")),
                "UpdateExpression": "SET #token = :token",
                "ConditionExpression": "rings = :noted",
                "ExpressionAttributeNames": {"#token": "token"},
                "ExpressionAttributeValues": {
                    ":token": {"S": jsonata("$states.context.Task.Token")},
                    ":noted": {"N": jsonata("$string($registration.rings)")},
                },
            },
            timeout=jsonata(AWAIT_NODES_SECONDS),
            next="Check registration",
            assign={"gather": GATHER_SECONDS},
            catch=[
                Catch([*CONDITION_FAILED, "States.Timeout"], "Check registration", kept=False, assign={"gather": 0}),
                Catch([EVERY_ERROR], "Release after a failure"),
            ],
        ).render(),
        "Summarise": pass_state(output=jsonata(SUMMARY)),
    }


def _after_a_failure(parts: ScaleUpParts) -> Mapping[str, State]:
    return {
        "Release after a failure": _give_up_the_lease(
            parts, next="Did it ring meanwhile?", on_error="The scale-up failed"
        ),
        "Did it ring meanwhile?": choice_state(
            {"$ringsAtRelease != $rings": "Ring again"}, otherwise="The scale-up failed"
        ),
        "Ring again": _start_another(parts, next="The scale-up failed", on_error="The scale-up failed"),
        "The scale-up failed": fail_state(),
    }


def _leased(
    parts: ScaleUpParts,
    name: str,
    payload: Mapping[str, Any],
    *,
    next: str,
    assign: Mapping[str, Any],
    retry: Sequence[Retry] = (),
) -> State:
    """A function under the lease: it renews the lease first, and everything that goes wrong gives the lease back."""
    return parts.integrations.invoke(
        parts.functions[name],
        {"lease": {"number": jsonata("$leaseNumber")}, **payload},
        next=next,
        assign=assign,
        retry=retry,
        catch=[Catch(LEASE_LOST, "Are nodes on their way?"), Catch([EVERY_ERROR], "Release after a failure")],
    )


def _launch_instances(parts: ScaleUpParts) -> State:
    # A group that fails must not stop the others, nor the recording of what they launched: its record stays open for the next look
    one = parts.integrations.invoke(
        parts.functions["launch_instances"],
        {
            "lease": {"number": jsonata("$leaseNumber")},
            "launches": jsonata("$claims.launches"),
            "index": jsonata("$states.input.index"),
        },
        catch=[
            Catch([EVERY_ERROR], "This group was not launched", kept=False)
        ],  # no variable of an outer scope may be set in here
    )
    nothing = pass_state(output={"notLaunched": True, "error": jsonata(FAILURE)})
    groups = map_state(
        "$claims.groups",
        selector={"index": jsonata("$states.context.Map.Item.Value")},
        at_once=CONCURRENT_LAUNCHES,
        states={"Launch one group": one, "This group was not launched": nothing},
        next="Record launches",
        catch=[Catch([EVERY_ERROR], "Release after a failure")],
    )
    # Those that EC2 refused are counted by record_launches. Whoever paused Joiner meanwhile finds claims that wait to be launched
    return {
        **groups,
        "Assign": {
            "failed": jsonata("$failed + $count($states.result[notLaunched])"),
            "groups": jsonata("$groups + $count($claims.groups)"),
            "paused": jsonata("$count($states.result[paused]) > 0"),
        },
    }


def _lease(parts: ScaleUpParts) -> LeaseStates:
    return LeaseStates(parts.integrations, parts.table)


def _take_the_lease(parts: ScaleUpParts) -> State:
    return _lease(parts).take(
        next="Let pods gather",
        assign={"leaseNumber": attribute("leaseNumber"), "rings": attribute("rings")},
        catch=[Catch(CONDITION_FAILED, "Joined the running scale-up"), Catch([EVERY_ERROR], "Release after a failure")],
    )


def _release_the_lease(parts: ScaleUpParts, *, next: str) -> State:
    """The lease goes only if nobody rang since the last look noted the rings: no ring is lost."""
    return _lease(parts).give_back(
        unless_rung_since="$rings",
        next=next,
        assign={"releasedAt": jsonata("$millis()")},
        catch=[
            Catch(CONDITION_FAILED, "Is it still time?", kept=False, assign={"turn": jsonata("$turn + 1")}),
            Catch([EVERY_ERROR], "Release after a failure"),
        ],
    )


def _give_up_the_lease(parts: ScaleUpParts, *, next: str, on_error: str) -> State:
    """The lease goes whatever rang; whoever comes here starts the next execution if there is reason to."""
    return _lease(parts).give_back(
        next=next,
        assign={"ringsAtRelease": attribute("rings")},
        catch=[Catch(CONDITION_FAILED, on_error, kept=False), Catch([EVERY_ERROR], on_error, kept=False)],
    )


def _start_another(parts: ScaleUpParts, *, next: str, on_error: str) -> State:
    return TaskState(
        resource=parts.integrations.service("states:startExecution"),
        arguments={
            "StateMachineArn": jsonata("$states.context.StateMachine.Id"),
            "Name": jsonata("'up-' & $now('[Y0001][M01][D01]T[H01][m01][s01]') & '-again'"),
            "Input": {"reason": "it rang while another execution could not look"},
        },
        timeout=10,
        next=next,
        catch=[Catch(EXECUTION_EXISTS, next, kept=False), Catch([EVERY_ERROR], on_error, kept=False)],
    ).render()
