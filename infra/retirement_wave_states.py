"""States of one wave of a retirement: its claims are drained, terminated and removed, in rounds.

`stage` of a claim is its progress. Each function works on the claims at its own stage and returns all claims of the
wave. A state transition costs money, so a choice after each function leads directly to the next state that has work.
"""

from collections.abc import Mapping
from typing import Any

from infra.retirement_expressions import STAGE_OF_STATE, is_last_round, next_round, seconds_until_next_round
from infra.retirement_limits import ROUNDS_BETWEEN_PAUSE_CHECKS, SHORT_PAUSE_SECONDS, RetirementLimits
from infra.service_integrations import CalledFunction, ServiceIntegrations
from infra.states_language import (
    EVERY_ERROR,
    FAILURE,
    Catch,
    State,
    States,
    choice_state,
    jsonata,
    pass_state,
    wait_state,
)


def wave_states(
    integrations: ServiceIntegrations, cluster: str, functions: Mapping[str, CalledFunction], limits: RetirementLimits
) -> States:
    """Return the states of one iteration of *Retire wave by wave*; its input has the claims of the wave."""
    return {
        "What is the first step?": _first_work(),
        **_work_states(integrations, functions, limits),
        **_pause_states(integrations, cluster, limits),
        "What is the next step?": _next_work(limits, *STAGE_OF_STATE),
        "Summarise the wave": pass_state(output={"claims": jsonata("$wave")}),
        "The wave is paused": pass_state(output={"claims": jsonata("$wave"), "paused": True}),
        "The wave failed": pass_state(output={"claims": jsonata("$wave"), "failed": jsonata(FAILURE)}),
    }


def _first_work() -> State:
    return choice_state(
        {f'$count($states.input.claims[stage = "{stage}"]) > 0': state for state, stage in STAGE_OF_STATE.items()},
        otherwise="Summarise the wave",
        assign={"wave": jsonata("$states.input.claims"), "pause": 1, "attempt": 1},
    )


def _work_states(
    integrations: ServiceIntegrations, functions: Mapping[str, CalledFunction], limits: RetirementLimits
) -> States:
    def invoke(
        name: str, *, next: str, payload: Mapping[str, Any] | None = None, assign: Mapping[str, Any] | None = None
    ) -> State:
        return integrations.invoke(
            functions[name],
            {"round": jsonata("$attempt"), "claims": jsonata("$wave"), **(payload or {})},
            next=next,
            assign={"wave": jsonata("$states.result.Payload.claims"), **(assign or {})},
            catch=[Catch([EVERY_ERROR], "The wave failed", kept=False)],
        )

    return {
        "Evict pods": invoke(
            "evict_pods",
            next="Is any node drained?",
            payload={"pause": jsonata("$pause")},
            assign={"pause": jsonata("$states.result.Payload.pause")},
        ),
        "Is any node drained?": _next_work(limits, "Terminate instances", "Confirm termination", "Forget the nodes"),
        "Terminate instances": invoke("terminate_instances", next="Confirm termination"),
        "Confirm termination": invoke("confirm_termination", next="Is any instance gone?"),
        "Is any instance gone?": _next_work(limits, "Forget the nodes"),
        "Forget the nodes": invoke("forget_nodes", next="Is anything left?"),
        "Is anything left?": _next_work(limits),
    }


def _pause_states(integrations: ServiceIntegrations, cluster: str, limits: RetirementLimits) -> States:
    pause = jsonata(seconds_until_next_round(limits))
    return {
        "Wait": wait_state(pause, assign=next_round(limits), next="What is the next step?"),
        "Wait longer": wait_state(pause, assign=next_round(limits), next="Read the pause again"),
        **integrations.unless_paused_meanwhile(
            cluster, next="What is the next step?", paused="The wave is paused", failed="The wave failed"
        ),
    }


def _next_work(limits: RetirementLimits, *states: str) -> State:
    """Lead to the first of these states that has work, to the end of the wave, or to a wait, which may read the pause
    parameter."""
    return choice_state(
        {
            **{f'$count($wave[stage = "{STAGE_OF_STATE[state]}"]) > 0': state for state in states},
            '$count($wave[stage != "forgotten"]) = 0': "Summarise the wave",
            is_last_round(limits): "Summarise the wave",
            f"$pause > {SHORT_PAUSE_SECONDS} or $attempt % {ROUNDS_BETWEEN_PAUSE_CHECKS} = 0": "Wait longer",
        },
        otherwise="Wait",
    )
