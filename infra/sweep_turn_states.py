"""One sweep at a time: the states that take the turn, wait for it, and give it back.

A sweep may take longer than the minute after which the schedule starts the next one, and a deletion starts one at any time. Two that look
at once would start the same retirements and count the same looks at an orphan. The item ``LEASE/sweep`` names the sweep that looks
(`holder`, until `sweepUntil` at the latest, epoch seconds), and the one that waits for it (`waiting`, `waitingUntil`). A third need not
wait: the one that waits has not begun to look, so it will see what the third was started for.

An Express execution that dies keeps the turn until `sweepUntil`, which is when its own time limit would have ended it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_ARN,
    NOW_SECONDS,
    Catch,
    ServiceIntegrations,
    State,
    TaskState,
    choice_state,
    jsonata,
    wait_state,
)
from joiner.item_keys import LEASE, SWEEP, item_key

SWEEP_TURN_KEY: Final = item_key(LEASE, SWEEP)
"""The item in which the doorbell notes when the latest sweep looks (`joiner.adapters.sweep_slot`)."""

TURN_RETRY_SECONDS: Final = 2
TURN_ATTEMPTS: Final = 25
"""Fifty seconds and a little: below the minute after which the schedule starts the next sweep."""

TAKE_TURN: Final = "Take the turn"
WAIT_FOR_TURN: Final = "Wait for the running sweep"
NEXT_SWEEP_SUFFICES: Final = "The next sweep sees it"
WAITED_TOO_LONG: Final = "The running sweep takes too long"

States = Mapping[str, State]


@dataclass(frozen=True, slots=True)
class SweepTurnStates:
    """The turn in one table; `seconds` is how long a sweep may take in all, `attempts` how often one tries to take the turn."""

    integrations: ServiceIntegrations
    table: str
    seconds: int
    attempts: int = TURN_ATTEMPTS

    def take(self, *, next: str, assign: Mapping[str, Any], catch: Sequence[Catch]) -> States:
        """States from `TAKE_TURN` to `next`; two of them end: the turn is another's, and that will do or takes too long."""
        until = {":until": {"N": jsonata(f"$string({NOW_SECONDS} + {self.seconds})")}}
        update = "SET holder = :me, sweepUntil = :until REMOVE waiting, waitingUntil"
        free = "attribute_not_exists(holder) OR sweepUntil < :now OR holder = :me"
        return {
            TAKE_TURN: self._update(
                update,
                free,
                until,
                next=next,
                assign=assign,
                catch=[Catch(CONDITION_FAILED, WAIT_FOR_TURN, kept=False), *catch],
            ),
            **self._waiting(catch),
        }

    def _waiting(self, catch: Sequence[Catch]) -> States:
        longest = TURN_RETRY_SECONDS * (self.attempts + 5)  # a few seconds more, for the calls between the pauses
        until = {":until": {"N": jsonata(f"$string({NOW_SECONDS} + {longest})")}}
        alone = "attribute_not_exists(waiting) OR waitingUntil < :now OR waiting = :me"
        taken = [Catch(CONDITION_FAILED, NEXT_SWEEP_SUFFICES, kept=False), *catch]
        count = {"waits": jsonata("$waits + 1")}
        return {
            WAIT_FOR_TURN: self._update(
                "SET waiting = :me, waitingUntil = :until", alone, until, next="How long has it waited?", catch=taken
            ),
            "How long has it waited?": choice_state(
                {f"$waits < {self.attempts}": "Let the running sweep end"}, otherwise=WAITED_TOO_LONG
            ),
            "Let the running sweep end": wait_state(TURN_RETRY_SECONDS, next=TAKE_TURN, assign=count),
            NEXT_SWEEP_SUFFICES: {"Type": "Succeed"},
            WAITED_TOO_LONG: {
                "Type": "Fail",
                "Error": "SweepIsRunning",
                "Cause": f"Another sweep looks for more than {TURN_RETRY_SECONDS * self.attempts} s: its log says what it waits for.",
            },
        }

    def give_back(self, *, next: str) -> State:
        """The next sweep may look; a turn that was taken over meanwhile stays with the other sweep."""
        values: Mapping[str, Any] = {":me": {"S": EXECUTION_ARN}}
        return self._task(
            "REMOVE holder, sweepUntil",
            "holder = :me",
            values,
            next=next,
            catch=[Catch([EVERY_ERROR], next, kept=False)],
        )

    def _update(
        self,
        update: str,
        condition: str,
        values: Mapping[str, Any],
        *,
        next: str,
        catch: Sequence[Catch],
        assign: Mapping[str, Any] | None = None,
    ) -> State:
        known = {":me": {"S": EXECUTION_ARN}, ":now": {"N": jsonata(f"$string({NOW_SECONDS})")}}
        return self._task(update, condition, {**known, **values}, next=next, catch=catch, assign=assign)

    def _task(
        self,
        update: str,
        condition: str,
        values: Mapping[str, Any],
        *,
        next: str,
        catch: Sequence[Catch],
        assign: Mapping[str, Any] | None = None,
    ) -> State:
        return TaskState(
            resource=self.integrations.service("dynamodb:updateItem"),
            arguments={
                "TableName": self.table,
                "Key": SWEEP_TURN_KEY,
                "UpdateExpression": update,
                "ConditionExpression": condition,
                "ExpressionAttributeValues": values,
            },
            timeout=10,
            next=next,
            assign=assign,
            catch=catch,
        ).render()
