"""States that let one sweep run at a time: they take the turn, wait for it, and give it back.

A sweep may take longer than the minute after which the schedule starts the next one, and a deletion starts one at any
time. Two sweeps at once would start the same retirements, and count one absence twice. The item ``LEASE/sweep`` names
the sweep that runs (`holder`, until `sweepUntil` at the latest, epoch seconds) and the one that waits (`waiting`,
`waitingUntil`). A third sweep ends at once: the one that waits has not read anything yet, so it will see what the third
was started for.

An Express execution that crashes keeps the turn until `sweepUntil`, when its own timeout would have ended it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.service_integrations import ItemUpdate, ServiceIntegrations
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_ARN,
    NOW_SECONDS,
    Catch,
    State,
    States,
    choice_state,
    jsonata,
    wait_state,
)
from infra.sweep_limits import SWEEP_TURN_ATTEMPTS, SWEEP_TURN_RETRY_SECONDS
from joiner.item_keys import LEASE, SWEEP, item_key

SWEEP_TURN_KEY: Final = item_key(LEASE, SWEEP)
"""The doorbell notes in this item when the latest sweep starts to read (`joiner.adapters.immediate_sweeps`)."""

TAKE_TURN: Final = "Take the turn"
WAIT_FOR_TURN: Final = "Wait for the running sweep"
NEXT_SWEEP_SUFFICES: Final = "The next sweep sees it"
WAITED_TOO_LONG: Final = "The running sweep takes too long"


@dataclass(frozen=True, slots=True)
class SweepTurnStates:
    """States for the turn in one table; a sweep takes at most `seconds`, and tries `attempts` times to take the
    turn."""

    integrations: ServiceIntegrations
    table: str
    seconds: int
    attempts: int = SWEEP_TURN_ATTEMPTS

    def take(self, *, next: str, catch: Sequence[Catch]) -> States:
        """Return the states from `TAKE_TURN` to `next`. Two of them end the machine: another sweep suffices, or takes
        too long."""
        return {
            TAKE_TURN: self._update(
                "SET holder = :me, sweepUntil = :until REMOVE waiting, waitingUntil",
                "attribute_not_exists(holder) OR sweepUntil < :now OR holder = :me",
                _until(self.seconds),
                next=next,
                catch=[Catch(CONDITION_FAILED, WAIT_FOR_TURN, kept=False), *catch],
            ),
            WAIT_FOR_TURN: self._wait_for_turn(catch),
            "How long has it waited?": choice_state(
                {f"$waits < {self.attempts}": "Let the running sweep end"}, otherwise=WAITED_TOO_LONG
            ),
            "Let the running sweep end": wait_state(
                SWEEP_TURN_RETRY_SECONDS, next=TAKE_TURN, assign={"waits": jsonata("$waits + 1")}
            ),
            NEXT_SWEEP_SUFFICES: {"Type": "Succeed"},
            WAITED_TOO_LONG: self._waited_too_long(),
        }

    def give_back(self, *, next: str) -> State:
        """Let the next sweep run. A turn that has expired and that another sweep has taken stays with that sweep."""
        update = ItemUpdate(
            SWEEP_TURN_KEY, "REMOVE holder, sweepUntil", {":me": {"S": EXECUTION_ARN}}, condition="holder = :me"
        )
        catch = [Catch([EVERY_ERROR], next, kept=False)]
        return self.integrations.update_item(self.table, update, next=next, catch=catch)

    def _wait_for_turn(self, catch: Sequence[Catch]) -> State:
        longest = SWEEP_TURN_RETRY_SECONDS * (self.attempts + 5)  # some seconds more, for the calls between the pauses
        return self._update(
            "SET waiting = :me, waitingUntil = :until",
            "attribute_not_exists(waiting) OR waitingUntil < :now OR waiting = :me",
            _until(longest),
            next="How long has it waited?",
            catch=[Catch(CONDITION_FAILED, NEXT_SWEEP_SUFFICES, kept=False), *catch],
        )

    def _waited_too_long(self) -> State:
        waited = SWEEP_TURN_RETRY_SECONDS * self.attempts
        return {
            "Type": "Fail",
            "Error": "SweepIsRunning",
            "Cause": f"Another sweep has run for more than {waited} s: its log shows what it waits for.",
        }

    def _update(
        self,
        expression: str,
        condition: str,
        values: Mapping[str, Any],
        *,
        next: str,
        catch: Sequence[Catch],
    ) -> State:
        known = {":me": {"S": EXECUTION_ARN}, ":now": {"N": jsonata(f"$string({NOW_SECONDS})")}}
        update = ItemUpdate(SWEEP_TURN_KEY, expression, {**known, **values}, condition=condition)
        return self.integrations.update_item(self.table, update, next=next, catch=catch)


def _until(seconds: int) -> Mapping[str, Any]:
    return {":until": {"N": jsonata(f"$string({NOW_SECONDS} + {seconds})")}}
