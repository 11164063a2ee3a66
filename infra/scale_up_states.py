"""States of the scale-up machine: from a ring to nodes that run the pending pods.

Under the lease, an execution reads the cluster, plans, records the claims, and launches. It releases the lease before
any node boots, and only if the doorbell did not ring since it read the cluster; otherwise it plans again. Then it waits
for its nodes: their rings wake it, and a timeout does.
"""

from collections.abc import Mapping
from typing import Any, Final

from infra.launch_and_registration_states import NOTHING_RECORDED, launch_and_register
from infra.launch_states import APPEND_EVENTS, NODES_SETTLE
from infra.lease_states import LEASE_LOST, attribute
from infra.machine_resources import MachineResources
from infra.scale_up_expressions import (
    INITIAL_VARIABLES,
    MAY_PLAN_AGAIN,
    MAY_SEARCH_AGAIN,
    MUST_REPLAN,
    NODES_HAVE_WAITED,
    OTHERS_MUST_PLAN,
    SUMMARY,
    THROTTLE_BACKOFF,
)
from infra.scale_up_limits import SCALE_UP_TIMEOUT_SECONDS
from infra.service_integrations import execution_name
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    REFUSED_BY_KARPENTER,
    Catch,
    Retry,
    State,
    States,
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

NO_CATALOGUE: Final = ("NoCatalogue",)
"""The error of the planner before the first refresh of the catalogue has finished."""

UNDER_LEASE: Final = (
    Catch(LEASE_LOST, "Are nodes on their way?"),
    Catch([EVERY_ERROR], "Release after a failure"),
)
"""Errors of functions that renew the lease: every error but a lost lease leads to its release."""


def scale_up_definition(resources: MachineResources) -> State:
    """Return the definition of the machine."""
    paused = resources.integrations.unless_paused(
        resources.cluster,
        next="Describe the cluster",
        catch=[Catch([EVERY_ERROR], "The scale-up failed")],
        launching=True,
    )
    states = {
        **paused,
        **_take_lease_states(resources),
        **_refusal_states(resources),
        **_launch_states(resources),
        **_release_states(resources),
        **_registration_states(resources),
        **_failure_states(resources),
    }
    return state_machine(states, comment="From pending pods to nodes that run them", timeout=SCALE_UP_TIMEOUT_SECONDS)


def _take_lease_states(resources: MachineResources) -> States:
    return {
        "Describe the cluster": resources.integrations.describe_cluster(
            resources.cluster,
            next="Take the lease",
            assign=INITIAL_VARIABLES,
            catch=[Catch([EVERY_ERROR], "The scale-up failed")],
        ),
        "Take the lease": _take_lease(resources),
        "Joined the running scale-up": succeed_state({"joined": True}),
        "Let pods gather": wait_state(1, next="Find pending pods"),
        "Find pending pods": _find_pending_pods(resources),
        "Is there anything to do?": choice_state(
            {
                "$found.refused != ''": "Give up the lease",
                OTHERS_MUST_PLAN: "Hand over",
                "$not($found.complete)": "Let pods gather",
                "$found.podsToPlan + $found.unfinished + $found.unwatched > 0": "Resolve node classes",
                "$watching": "Release the lease",
            },
            otherwise="Release the unused lease",
        ),
    }


def _refusal_states(resources: MachineResources) -> States:
    return {
        "Give up the lease": _give_up_lease(resources, next="Why was it refused?", on_error="Why was it refused?"),
        "Why was it refused?": choice_state(refusal_branches("$found.refused"), otherwise=REFUSED_BY_KARPENTER),
        **refusal_states("$found.refused"),
        "Release the unused lease": _release_lease(resources, next="Summarise"),
    }


def _launch_states(resources: MachineResources) -> States:
    return {
        "Resolve node classes": _resolve_node_classes(resources),
        "Plan capacity": _plan_capacity(resources),
        "Record node claims": _record_node_claims(resources),
        "Are there several launches?": choice_state(
            {"$count($claims.groups) = 0": "Record launches", "$count($claims.groups) = 1": "Launch one group"},
            otherwise="Launch instances",
        ),
        "Launch one group": _launch_one_group(resources),
        "Launch instances": _launch_instances(resources),
        "Record launches": _record_launches(resources),
        "Did offerings turn out short?": choice_state(
            {
                f"$later and {NODES_HAVE_WAITED} and $claims.postponed = 0": "Release the lease",
                f"$later and {MUST_REPLAN}": "Back off after throttling",
                f"{MUST_REPLAN} and {NODES_HAVE_WAITED}": "Hand over",
                MUST_REPLAN: "Plan around them",
                "$claims.postponed > 0 and $not($paused)": "Hand over",
            },
            otherwise="Release the lease",
        ),
        "Back off after throttling": wait_state(jsonata(THROTTLE_BACKOFF), next="Plan around them"),
        "Plan around them": pass_state(
            assign={"turn": jsonata("$turn + 1"), "replans": jsonata("$replans + 1")}, next="Find pending pods"
        ),
    }


def _release_states(resources: MachineResources) -> States:
    return {
        "Release the lease": _release_lease(resources, next="Check registration"),
        "May it plan again?": choice_state(
            {MAY_PLAN_AGAIN: "Let pods gather", MAY_SEARCH_AGAIN: "Find pending pods"}, otherwise="Hand over"
        ),
        "Hand over": _give_up_lease(resources, next="Start the next scale-up", on_error="Are nodes on their way?"),
        "Start the next scale-up": _start_next_scale_up(
            resources, next="Are nodes on their way?", on_error="Are nodes on their way?"
        ),
    }


def _registration_states(resources: MachineResources) -> States:
    return {
        "Are nodes on their way?": choice_state({"$watching": "Check registration"}, otherwise="Summarise"),
        "Check registration": resources.launches.check_registration(
            next="Have all nodes joined?", catch=[Catch([EVERY_ERROR], "Release after a failure")]
        ),
        "Have all nodes joined?": choice_state(
            {"$registration.done": "Summarise", NODES_SETTLE: "Check registration"}, otherwise="Await nodes"
        ),
        "Await nodes": resources.launches.await_nodes(next="Check registration", on_error="Release after a failure"),
        "Summarise": pass_state(output=jsonata(SUMMARY)),
    }


def _failure_states(resources: MachineResources) -> States:
    return {
        "Release after a failure": _give_up_lease(
            resources, next="Did it ring meanwhile?", on_error="The scale-up failed"
        ),
        "Did it ring meanwhile?": choice_state(
            {"$ringsAtRelease != $rings": "Ring again"}, otherwise="The scale-up failed"
        ),
        "Ring again": _start_next_scale_up(resources, next="The scale-up failed", on_error="The scale-up failed"),
        "The scale-up failed": fail_state(),
    }


def _find_pending_pods(resources: MachineResources) -> State:
    return resources.invoke_under_lease(
        "find_pending_pods",
        {"gathering": jsonata("$gathering"), "launched": jsonata("$launched > 0")},
        next="Is there anything to do?",
        assign={
            "rings": jsonata("$states.result.Payload.rings"),
            "found": jsonata("$states.result.Payload"),
            "gathering": jsonata("$states.result.Payload.gathering"),
            "pods": jsonata("$states.result.Payload.pods > $pods ? $states.result.Payload.pods : $pods"),
        },
        catch=UNDER_LEASE,
    )


def _resolve_node_classes(resources: MachineResources) -> State:
    return resources.invoke_under_lease(
        "resolve_node_classes",
        {"snapshot": jsonata("$found.snapshot")},
        next="Plan capacity",
        assign={"classes": jsonata("$states.result.Payload.classes")},
        catch=UNDER_LEASE,
    )


def _plan_capacity(resources: MachineResources) -> State:
    return resources.invoke_under_lease(
        "plan_capacity",
        {"snapshot": jsonata("$found.snapshot"), "classes": jsonata("$classes")},
        next="Record node claims",
        assign={"plan": jsonata("$states.result.Payload")},
        retry=[Retry(NO_CATALOGUE, attempts=6, interval=5)],
        catch=UNDER_LEASE,
    )


def _record_node_claims(resources: MachineResources) -> State:
    return resources.invoke_under_lease(
        "record_node_claims",
        {"plan": jsonata("$plan.plan"), "classes": jsonata("$classes"), "snapshot": jsonata("$found.snapshot")},
        next="Are there several launches?",
        assign={
            "claims": jsonata("$states.result.Payload"),
            "unpublished": jsonata(APPEND_EVENTS),
            "recorded": NOTHING_RECORDED,
            "paused": False,
            "launchedAt": jsonata("$watching ? $launchedAt : $millis()"),
        },
        catch=UNDER_LEASE,
    )


def _launch_one_group(resources: MachineResources) -> State:
    # record_launches counts the groups that EC2 refused. A user who pauses Joiner meanwhile leaves claims without
    # instances
    launched = {"groups": jsonata("$groups + 1"), "paused": jsonata("$states.result.Payload.paused = true")}
    failed = {"groups": jsonata("$groups + 1"), "failed": jsonata("$failed + 1")}
    return resources.launches.launch_one_group(
        next="Record launches",
        catch=[Catch([EVERY_ERROR], "Record launches", kept=False, assign=failed)],
        assign=launched,
    )


def _launch_instances(resources: MachineResources) -> State:
    return launch_and_register(
        resources.launches,
        record=_record(),
        next="Record launches",
        catch=[Catch([EVERY_ERROR], "Release after a failure")],
        assign={
            "groups": jsonata("$groups + $count($claims.groups)"),
            "paused": jsonata("$states.result[0].paused"),
            "recorded": jsonata("$states.result[1].recorded"),
            "unpublished": jsonata("$append($unpublished, $states.result[1].events)"),
            "launched": jsonata("$launched + $states.result[1].recorded.launched"),
            "short": jsonata("$short + $states.result[1].recorded.short"),
            "failed": jsonata("$failed + $states.result[0].notLaunched + $states.result[1].recorded.failed"),
        },
    )


def _record() -> Mapping[str, Any]:
    return {
        "lease": {"number": jsonata("$leaseNumber")},
        "launches": jsonata("$claims.launches"),
        "plan": jsonata("$plan.plan"),
        "snapshot": jsonata("$found.snapshot"),
    }


def _record_launches(resources: MachineResources) -> State:
    """Record the launches that were not recorded while others ran."""
    return resources.invoke_under_lease(
        "record_launches",
        _record(),
        next="Did offerings turn out short?",
        assign={
            "watching": True,
            "unpublished": jsonata(APPEND_EVENTS),
            "launchTurn": jsonata("$turn"),
            "again": jsonata("$states.result.Payload.again or $recorded.short > 0"),
            "later": jsonata("$states.result.Payload.later or $recorded.throttled"),
            "throttles": jsonata("$states.result.Payload.later or $recorded.throttled ? $throttles + 1 : 0"),
            "launched": jsonata("$launched + $states.result.Payload.launched"),
            "short": jsonata("$short + $states.result.Payload.short"),
            "failed": jsonata("$failed + $states.result.Payload.failed"),
        },
        catch=UNDER_LEASE,
    )


def _take_lease(resources: MachineResources) -> State:
    return resources.lease.take(
        next="Find pending pods",
        assign={"leaseNumber": attribute("leaseNumber"), "rings": attribute("rings")},
        catch=[Catch(CONDITION_FAILED, "Joined the running scale-up"), Catch([EVERY_ERROR], "Release after a failure")],
    )


def _release_lease(resources: MachineResources, *, next: str) -> State:
    """Release the lease only if the doorbell did not ring since the pods were read: no ring is lost."""
    return resources.lease.give_back(
        unless_rung_since="$rings",
        next=next,
        assign={"releasedAt": jsonata("$millis()")},
        catch=[
            Catch(CONDITION_FAILED, "May it plan again?", kept=False, assign={"turn": jsonata("$turn + 1")}),
            Catch([EVERY_ERROR], "Release after a failure"),
        ],
    )


def _give_up_lease(resources: MachineResources, *, next: str, on_error: str) -> State:
    """Release the lease whether or not the doorbell rang; a later state starts the next execution if one is needed."""
    return resources.lease.give_back(
        next=next,
        assign={"ringsAtRelease": attribute("rings")},
        catch=[Catch(CONDITION_FAILED, on_error, kept=False), Catch([EVERY_ERROR], on_error, kept=False)],
    )


def _start_next_scale_up(resources: MachineResources, *, next: str, on_error: str) -> State:
    return resources.integrations.start_execution(
        jsonata("$states.context.StateMachine.Id"),
        execution_name("up", "again", milliseconds=True),
        {"reason": "the doorbell rang while another execution could not plan"},
        next=next,
        on_error=on_error,
    )
