"""JSONata expressions of the retirement machines."""

from collections.abc import Mapping
from typing import Final

from infra.retirement_limits import (
    MAX_DUE_WAIT_SECONDS,
    MAX_NOTES_WAIT_SECONDS,
    TERMINATION_POLL_SECONDS,
    RetirementLimits,
)
from infra.states_language import NOW_SECONDS, jsonata

VOLUNTARY_REASONS: Final = '["empty", "expired", "aged", "consolidated", "drifted", "recommended", "surplus"]'
"""Reasons of retirements that may be cancelled. They begin under the lease: while it is held, no plan uses these
nodes."""

INVOLUNTARY_CLAIMS: Final = f"$asked[$not(reason in {VOLUNTARY_REASONS})]"
VOLUNTARY_CLAIMS: Final = f"$asked[reason in {VOLUNTARY_REASONS}]"

CLAIM_GROUPS: Final = f"""$append($append(
  $count({INVOLUNTARY_CLAIMS}) > 0 ? [{{"voluntary": false, "claims": [{INVOLUNTARY_CLAIMS}], "noted": false}}] : [],
  $count({VOLUNTARY_CLAIMS}) > 0 ? [{{"voluntary": true, "claims": [{VOLUNTARY_CLAIMS}], "noted": false}}] : []
), $noted ? [{{"voluntary": false, "claims": [], "noted": true}}] : [])"""
"""JSONata: up to three groups. Involuntary claims; voluntary claims; and claims of interrupted instances, which *Begin
retirement* reads from the table. A filter that returned both kinds of claims would make one group of them, because
JSONata keeps the array that it filters."""

SECONDS_UNTIL_DUE: Final = (
    f"$max([0, $min([{MAX_DUE_WAIT_SECONDS}, $max($append([0], $wanted.notBefore)) - {NOW_SECONDS}])])"
)

SECONDS_UNTIL_NOTED: Final = f"$max([0, $min([{MAX_NOTES_WAIT_SECONDS}, $notesFrom - {NOW_SECONDS}])])"

STAGE_OF_STATE: Final = {
    "Evict pods": "draining",
    "Terminate instances": "drained",
    "Confirm termination": "terminating",
    "Forget the nodes": "terminated",
}
"""The stage of the claims on which a state works."""

SUMMARY: Final = """{
  "refused": [$states.result.refused, ""][0],
  "retired": [$states.result.waves.claims[stage = "forgotten"].claim],
  "waiting": [$states.result.waves.claims[stage != "forgotten"].{"claim": claim, "node": node, "why": why}],
  "skipped": [$states.result.skipped],
  "failures": [$states.result.failed, $states.result.waves.failed]
}"""


def is_last_round(limits: RetirementLimits) -> str:
    """JSONata: whether this round is the last."""
    elapsed = "$millis() - $toMillis($states.context.Execution.StartTime)"
    return f"$attempt >= {limits.rounds} or {elapsed} > {limits.last_round_after * 1000}"


def seconds_until_next_round(limits: RetirementLimits) -> str:
    """JSONata: seconds until the next round."""
    terminating = '$count($wave[stage = "terminating"]) > 0'
    return f"$min([$pause, {terminating} ? {TERMINATION_POLL_SECONDS} : {limits.longest_pause}])"


def next_round(limits: RetirementLimits) -> Mapping[str, str]:
    """Return the variables of the next round: the pause doubles."""
    return {"attempt": jsonata("$attempt + 1"), "pause": jsonata(f"$min([2 * $pause, {limits.longest_pause}])")}
