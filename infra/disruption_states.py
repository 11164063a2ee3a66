"""States of the disruption machine: from nodes that are not worth their price to their retirement.

An execution makes two proposals, 15 seconds apart. The second one, and what follows until the replacements are
launched, is under the lease, so that no plan uses the nodes meanwhile. The lease is released before any node boots.
Nodes are retired only when all their replacements are initialized; until then everything can be undone. The pause is
read right before and right after nodes are marked: nodes that were marked just then are opened again.

One execution at a time has the turn to propose and to mark nodes. The item ``LEASE/disrupt`` names it (`holder`, until
`disruptUntil` at the latest, epoch seconds). It keeps the turn while replacements boot, so that the next wave is
planned when the pods of this one have moved. If they take longer than two minutes, it gives the turn back and goes on
to await them; it settles only its own disruptions from then on.

The ledger has an item for each disruption under way. The sweep names the ended executions (input `left`) whose
disruptions an execution finishes or undoes. One that was started only for that (input `due` false) proposes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.disruption_expressions import (
    INITIAL_VARIABLES,
    LEFT_OVER,
    MAY_AWAIT,
    MUST_SETTLE,
    STILL_AWAITED,
    SUMMARY,
    TO_SETTLE,
    awaited_for,
)
from infra.disruption_limits import (
    DISRUPTION_LEASE_ATTEMPTS,
    DISRUPTION_TIMEOUT_SECONDS,
    DISRUPTION_TURN_SECONDS,
    REPLACEMENTS_AWAITED_ALONE_SECONDS,
    SECONDS_BETWEEN_PROPOSALS,
)
from infra.launch_states import APPEND_EVENTS, NODES_SETTLE
from infra.lease_limits import LEASE_RETRY_SECONDS
from infra.lease_states import LEASE_LOST, attribute
from infra.machine_resources import MachineResources
from infra.scale_up_states import NO_CATALOGUE
from infra.service_integrations import ItemUpdate, execution_name
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_ARN,
    NOW_SECONDS,
    Catch,
    Retry,
    State,
    States,
    choice_state,
    fail_state,
    jsonata,
    refusal_branches,
    refusal_states,
    state_machine,
    succeed_state,
    wait_state,
)
from joiner.item_keys import DISRUPT, LEASE, item_key

GIVE_BACK_TURN: Final = "Give the turn back"
END_LEASE: Final = "Release the lease"
SETTLE: Final = "Settle disruptions"
LET_OTHERS: Final = "Let others disrupt nodes"
HOW_IT_ENDED: Final = "How did it end?"

END_OF_TURN: Final = ItemUpdate(
    item_key(LEASE, DISRUPT), "REMOVE holder, disruptUntil", {":me": {"S": EXECUTION_ARN}}, condition="holder = :me"
)

UNDER_LEASE: Final = (Catch(LEASE_LOST, GIVE_BACK_TURN, kept=False), Catch([EVERY_ERROR], END_LEASE))
"""Errors of functions that renew the lease. Another execution that took the lease plans without these nodes if they are
marked; what was begun is settled later."""


@dataclass(frozen=True, slots=True)
class DisruptionResources(MachineResources):
    """What the states refer to."""

    scale_up_arn: str
    retire_arn: str


def disruption_definition(
    resources: DisruptionResources, *, awaited_alone: int = REPLACEMENTS_AWAITED_ALONE_SECONDS
) -> State:
    """Return the definition of the machine. For `awaited_alone` seconds the turn is kept for replacements."""
    paused = resources.integrations.unless_paused(
        resources.cluster,
        next="Describe the cluster",
        catch=[Catch([EVERY_ERROR], "The disruption failed")],
        launching=True,
    )
    states = {
        **paused,
        **_turn_states(resources),
        **_proposal_states(resources),
        **_lease_states(resources),
        **_validation_states(resources),
        **_launch_states(resources),
        **_release_states(resources),
        **_settling_states(resources),
        **_awaiting_states(resources, awaited_alone),
        **_final_states(resources),
    }
    return state_machine(
        states,
        comment="From nodes that are not worth their price to their retirement",
        timeout=DISRUPTION_TIMEOUT_SECONDS,
    )


def _turn_states(resources: DisruptionResources) -> States:
    turn = {
        ":me": {"S": EXECUTION_ARN},
        ":now": {"N": jsonata(f"$string({NOW_SECONDS})")},
        ":until": {"N": jsonata(f"$string({NOW_SECONDS} + {DISRUPTION_TURN_SECONDS})")},
    }
    update = ItemUpdate(
        item_key(LEASE, DISRUPT),
        "SET holder = :me, disruptUntil = :until",
        turn,
        condition="attribute_not_exists(holder) OR disruptUntil < :now OR holder = :me",
    )
    return {
        "Describe the cluster": resources.integrations.describe_cluster(
            resources.cluster,
            next="Take the turn",
            assign=INITIAL_VARIABLES,
            catch=[Catch([EVERY_ERROR], "The disruption failed")],
        ),
        "Take the turn": resources.integrations.update_item(
            resources.table,
            update,
            next="Is a disruption left over?",
            catch=[
                Catch(CONDITION_FAILED, "Another disruption runs", kept=False),
                Catch([EVERY_ERROR], GIVE_BACK_TURN),  # an update whose response was lost may have taken the turn
            ],
        ),
        "Another disruption runs": succeed_state({"joined": True}),
        "Is a disruption left over?": choice_state(
            {LEFT_OVER: SETTLE, "$due": "Find candidates"}, otherwise=GIVE_BACK_TURN
        ),
    }


def _proposal_states(resources: DisruptionResources) -> States:
    return {
        "Find candidates": _invoke(
            resources,
            "find_candidates",
            {},
            next="May nodes be disrupted?",
            assign={"found": jsonata("$states.result.Payload"), "surveyed": True},
        ),
        "May nodes be disrupted?": choice_state({"$found.why = ''": "Resolve node classes"}, otherwise=GIVE_BACK_TURN),
        "Resolve node classes": _invoke(
            resources,
            "resolve_node_classes",
            {"snapshot": jsonata("$found.snapshot")},
            next="Propose disruption",
            assign={"classes": jsonata("$states.result.Payload.classes")},
        ),
        "Propose disruption": _invoke(
            resources,
            "propose_disruption",
            {"snapshot": jsonata("$found.snapshot"), "classes": jsonata("$classes"), "digest": jsonata("$digest")},
            next="Report candidates",
            assign={"proposed": jsonata("$states.result.Payload")},
            retry=[Retry(NO_CATALOGUE, attempts=6, interval=5)],
        ),
        "Report candidates": resources.integrations.invoke(
            resources.functions["report_candidates"],
            {"proposal": jsonata("$proposed.proposal"), "snapshot": jsonata("$found.snapshot")},
            next="Is anything proposed?",
            catch=[Catch([EVERY_ERROR], "Is anything proposed?", kept=False)],  # the next one reports again
        ),
        "Is anything proposed?": choice_state({"$proposed.actions > 0": "Let pods settle"}, otherwise=GIVE_BACK_TURN),
        "Let pods settle": wait_state(SECONDS_BETWEEN_PROPOSALS, next="Take the lease", assign={"turn": 2}),
    }


def _lease_states(resources: DisruptionResources) -> States:
    return {
        "Take the lease": resources.lease.take(
            next="Find candidates again",
            assign={"leaseNumber": attribute("leaseNumber"), "ringsNoted": attribute("rings")},
            catch=[
                Catch(CONDITION_FAILED, "Are attempts left?", kept=False),
                Catch([EVERY_ERROR], END_LEASE),
            ],
        ),
        "Are attempts left?": choice_state(
            {f"$tries < {DISRUPTION_LEASE_ATTEMPTS}": "Wait for the lease"}, otherwise=GIVE_BACK_TURN
        ),
        "Wait for the lease": wait_state(
            LEASE_RETRY_SECONDS, next="Take the lease", assign={"tries": jsonata("$tries + 1")}
        ),
    }


def _validation_states(resources: DisruptionResources) -> States:
    return {
        "Find candidates again": resources.invoke_under_lease(
            "find_candidates",
            {},
            next="May nodes still be disrupted?",
            assign={"found": jsonata("$states.result.Payload")},
            catch=UNDER_LEASE,
        ),
        "May nodes still be disrupted?": choice_state({"$found.why = ''": "Validate disruption"}, otherwise=END_LEASE),
        "Validate disruption": resources.invoke_under_lease(
            "propose_disruption",
            {
                "snapshot": jsonata("$found.snapshot"),
                "classes": jsonata("$classes"),
                "proposal": jsonata("$proposed.proposal"),
            },
            next="Is the proposal still valid?",
            assign={"proposed": jsonata("$states.result.Payload")},
            catch=UNDER_LEASE,
        ),
        "Is the proposal still valid?": choice_state(
            {"$proposed.actions > 0": "Read the pause before the mark"}, otherwise=END_LEASE
        ),
        "Read the pause before the mark": _read_pause(resources, next="May nodes be marked?"),
        "May nodes be marked?": choice_state({"$paused": END_LEASE}, otherwise="Mark nodes"),
        "Mark nodes": resources.invoke_under_lease(
            "mark_nodes",
            {"proposal": jsonata("$proposed.proposal"), "rings": jsonata("$found.rings")},
            next="Read the pause after the mark",
            assign={"marked": jsonata("$states.result.Payload")},
            catch=UNDER_LEASE,
        ),
    }


def _launch_states(resources: DisruptionResources) -> States:
    keys = {"plan": jsonata("$marked.plan"), "snapshot": jsonata("$found.snapshot")}
    return {
        "Read the pause after the mark": _read_pause(resources, next="Are replacements needed?"),
        "Are replacements needed?": choice_state(
            {"$marked.replacements > 0 and $not($paused)": "Record node claims"}, otherwise=END_LEASE
        ),
        "Record node claims": resources.invoke_under_lease(
            "record_node_claims",
            {**keys, "classes": jsonata("$classes")},
            next="Launch instances",
            assign={
                "claims": jsonata("$states.result.Payload"),
                "unpublished": jsonata(APPEND_EVENTS),
                "written": True,
            },
            catch=UNDER_LEASE,
        ),
        "Launch instances": resources.launches.launch_groups(
            next="Record launches",
            catch=[Catch([EVERY_ERROR], END_LEASE)],
            assign={"paused": jsonata("$count($states.result[paused]) > 0")},
        ),
        "Record launches": resources.invoke_under_lease(
            "record_launches",
            {**keys, "launches": jsonata("$claims.launches")},
            next=END_LEASE,
            assign={
                "launchedAt": jsonata("$millis()"),
                "awaited": jsonata("$states.result.Payload.waiting"),
                "unpublished": jsonata(APPEND_EVENTS),
            },
            catch=UNDER_LEASE,
        ),
    }


def _release_states(resources: DisruptionResources) -> States:
    """Release the lease. Other executions planned nothing while it was held: if it rang, a scale-up follows."""
    return {
        END_LEASE: resources.lease.give_back(
            next="Did it ring meanwhile?",
            assign={"ringsNow": attribute("rings")},
            catch=[Catch(errors, "Did it ring meanwhile?", kept=False) for errors in (CONDITION_FAILED, [EVERY_ERROR])],
        ),
        "Did it ring meanwhile?": choice_state(
            {"$ringsNow != $ringsNoted": "Start a scale-up"}, otherwise="Are nodes marked?"
        ),
        "Start a scale-up": resources.integrations.start_execution(
            resources.scale_up_arn,
            execution_name("up", "disrupt", milliseconds=True),
            {"reason": "the doorbell rang while nodes were chosen for disruption"},
            next="Are nodes marked?",
            on_error="Are nodes marked?",  # the sweep finds these pods, too
        ),
        "Are nodes marked?": choice_state(
            {"$count($marked.marked) > 0 and $not($exists($failure.Error))": SETTLE}, otherwise=GIVE_BACK_TURN
        ),
    }


def _settling_states(resources: DisruptionResources) -> States:
    return {
        SETTLE: _invoke(
            resources,
            "settle_disruptions",
            {"written": jsonata("$written"), "paused": jsonata("$paused"), "left": jsonata(TO_SETTLE)},
            next="May nodes be retired?",
            assign={
                "settled": jsonata("$states.result.Payload"),
                "requested": jsonata("$requested + $count($states.result.Payload.retire)"),
                "undone": jsonata("$append($undone, $states.result.Payload.undone)"),
                "initialized": jsonata("$registration.initialized"),
                "awaited": jsonata(STILL_AWAITED),
            },
        ),
        "May nodes be retired?": choice_state(
            {"$count($settled.retire) > 0": "Retire nodes"}, otherwise="Are replacements on their way?"
        ),
        "Retire nodes": resources.integrations.start_execution(
            resources.retire_arn,
            execution_name("retire", "disrupt", milliseconds=True),
            {"reason": "disruption", "claims": jsonata("[$settled.retire]")},
            next="Are replacements on their way?",
            on_error="Are replacements on their way?",  # a later execution requests the retirement again
        ),
        "Are replacements on their way?": choice_state(
            {
                MAY_AWAIT: "Check registration",
                "$due and $not($surveyed)": "Find candidates",
                "$not($holdsTurn)": HOW_IT_ENDED,
            },
            otherwise=GIVE_BACK_TURN,
        ),
    }


def _awaiting_states(resources: DisruptionResources, awaited_alone: int) -> States:
    return {
        "Check registration": resources.launches.check_registration(
            next="Has a replacement joined?", catch=[Catch([EVERY_ERROR], GIVE_BACK_TURN)]
        ),
        "Has a replacement joined?": choice_state(
            {MUST_SETTLE: SETTLE, awaited_for(awaited_alone): LET_OTHERS, NODES_SETTLE: "Check registration"},
            otherwise="Await nodes",
        ),
        LET_OTHERS: resources.integrations.update_item(
            resources.table,
            END_OF_TURN,
            next="Has a replacement joined?",
            assign={"holdsTurn": False},
            catch=[
                # The turn is gone: an answer was lost, or a sweep took it. Other errors: the next check tries again
                Catch(CONDITION_FAILED, "Has a replacement joined?", kept=False, assign={"holdsTurn": False}),
                Catch([EVERY_ERROR], "Await nodes", kept=False),
            ],
        ),
        "Await nodes": resources.launches.await_nodes(next="Check registration", on_error=GIVE_BACK_TURN),
    }


def _final_states(resources: DisruptionResources) -> States:
    return {
        GIVE_BACK_TURN: resources.integrations.update_item(
            resources.table, END_OF_TURN, next=HOW_IT_ENDED, catch=[Catch([EVERY_ERROR], HOW_IT_ENDED, kept=False)]
        ),
        HOW_IT_ENDED: choice_state(
            {"$exists($failure.Error)": "The disruption failed", **refusal_branches("$found.refused")},
            otherwise="Summarise",
        ),
        **refusal_states("$found.refused"),
        "Summarise": succeed_state(jsonata(SUMMARY)),
        "The disruption failed": fail_state(),
    }


def _invoke(
    resources: DisruptionResources,
    name: str,
    payload: Mapping[str, Any],
    *,
    next: str,
    assign: Mapping[str, Any],
    retry: Sequence[Retry] = (),
) -> State:
    return resources.integrations.invoke(
        resources.functions[name],
        payload,
        next=next,
        assign=assign,
        retry=retry,
        catch=[Catch([EVERY_ERROR], GIVE_BACK_TURN)],
    )


def _read_pause(resources: DisruptionResources, *, next: str) -> State:
    return resources.integrations.read_pause(
        resources.cluster, next=next, catch=[Catch([EVERY_ERROR], END_LEASE)], launching=True
    )
