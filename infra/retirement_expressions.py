"""Limits, waits and JSONata expressions of the retirement machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.states_language import NOW_SECONDS, jsonata

VOLUNTARY_REASONS: Final = '["empty", "expired", "consolidated", "drifted", "recommended", "surplus"]'
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

MAX_DUE_WAIT_SECONDS: Final = 90
"""Longest wait until a claim is due. The sweep starts no retirement earlier (`AHEAD` in
`joiner.lifecycle.emptiness`)."""

SECONDS_UNTIL_DUE: Final = (
    f"$max([0, $min([{MAX_DUE_WAIT_SECONDS}, $max($append([0], $wanted.notBefore)) - {NOW_SECONDS}])])"
)

MAX_NOTES_WAIT_SECONDS: Final = 5
"""Longest wait for the notes of interrupted instances: an execution starts at most this long before the second from
which it reads them (`ATTEMPTS` in `joiner.adapters.executions`)."""

SECONDS_UNTIL_NOTED: Final = f"$max([0, $min([{MAX_NOTES_WAIT_SECONDS}, $notesFrom - {NOW_SECONDS}])])"

LEASE_ATTEMPTS: Final = 20
RETRY_SECONDS: Final = 3
"""A scale-up has the lease for seconds. After a minute without the lease, the claims are left to the next sweep."""

LAUNCH_RECORD_ATTEMPTS: Final = 10
"""An instance may be lost before its launch is recorded. Its claim can be retired some seconds later, when it is."""

CONCURRENT_WAVES: Final = 5

MAX_ROUNDS_OF_WAVE: Final = 90
"""Rounds after which a wave ends although its claims progress. All waves share one history, which ends at 25,000
events. A round in which every function has work writes 41, and 100 claims of both kinds make six waves at most."""

TERMINATION_POLL_SECONDS: Final = 15
"""Longest time between two rounds while instances shut down."""

SHORT_PAUSE_SECONDS: Final = 4
ROUNDS_BETWEEN_PAUSE_CHECKS: Final = 5
"""The pause parameter is read before each round that is more than `SHORT_PAUSE_SECONDS` away, and before every fifth
round."""

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
  "leftOut": [$states.result.leftOut],
  "failures": [$states.result.failed, $states.result.waves.failed]
}"""


@dataclass(frozen=True, slots=True)
class RetirementLimits:
    """How long an execution runs, in seconds.

    `seconds` is its timeout. After `last_round_after` it starts no further round, even if nodes are blocked. While pods
    are evicted, two rounds are at most `longest_pause` apart. `rounds` is the number of rounds after which a wave ends.
    """

    seconds: int
    last_round_after: int
    longest_pause: int
    rounds: int = MAX_ROUNDS_OF_WAVE

    @property
    def is_last_round(self) -> str:
        """JSONata: whether this round is the last."""
        elapsed = "$millis() - $toMillis($states.context.Execution.StartTime)"
        return f"$attempt >= {self.rounds} or {elapsed} > {self.last_round_after * 1000}"

    @property
    def pause(self) -> str:
        """JSONata: seconds until the next round."""
        terminating = '$count($wave[stage = "terminating"]) > 0'
        return f"$min([$pause, {terminating} ? {TERMINATION_POLL_SECONDS} : {self.longest_pause}])"

    @property
    def next_round(self) -> Mapping[str, str]:
        """The variables of the next round: the pause doubles."""
        return {"attempt": jsonata("$attempt + 1"), "pause": jsonata(f"$min([2 * $pause, {self.longest_pause}])")}


STANDARD_LIMITS: Final = RetirementLimits(seconds=3600, last_round_after=1800, longest_pause=60)
"""Limits of a Standard execution."""

EXPRESS_LIMITS: Final = RetirementLimits(seconds=290, last_round_after=225, longest_pause=15)
"""Limits of an Express execution, which AWS ends after 300 seconds. Its last round starts after four minutes at most,
and has most of another minute. Before its first round it may wait 90 seconds for a claim to be due, and 60 for the
lease."""
