"""The lease as states: one execution at a time decides about nodes, each under a number of its own, and no ring is lost.

The item ``LEASE/scale-up`` holds its holder (an execution's ARN), until when, the number, and how often anybody rang.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.states_language import (
    EXECUTION_ARN,
    NOW_SECONDS,
    RESULT,
    Catch,
    ServiceIntegrations,
    State,
    TaskState,
    jsonata,
)
from joiner.item_keys import LEASE, SCALE_UP, item_key

LEASE_SECONDS: Final = 120
"""Until the first function under the lease renews it; each renews it for its own timeout and half a minute."""

LEASE_KEY: Final = item_key(LEASE, SCALE_UP)

LEASE_LOST: Final = ("LeaseLost",)
"""What a function raises that finds the lease in other hands: that execution sees to the pods now."""


@dataclass(frozen=True, slots=True)
class LeaseStates:
    """The lease in one table. A condition that does not hold is an error that the caller catches."""

    integrations: ServiceIntegrations
    table: str

    def take(self, *, next: str, assign: Mapping[str, str], catch: Sequence[Catch]) -> State:
        """Free, run out, or ours already: that is this very request, sent again."""
        values = {
            ":now": {"N": jsonata(f"$string({NOW_SECONDS})")},
            ":until": {"N": jsonata(f"$string({NOW_SECONDS} + {LEASE_SECONDS})")},
            ":zero": {"N": "0"},
            ":one": {"N": "1"},
        }
        update = (
            "SET holder = :me, leaseUntil = :until, rings = if_not_exists(rings, :zero), "
            "leaseNumber = if_not_exists(leaseNumber, :zero) + :one"
        )
        condition = "attribute_not_exists(holder) OR leaseUntil < :now OR holder = :me"
        return self._update(update, condition, values, next=next, assign=assign, catch=catch)

    def give_back(
        self,
        *,
        next: str,
        assign: Mapping[str, str],
        catch: Sequence[Catch],
        unless_rung_since: str = "",
        output: Any = RESULT,
    ) -> State:
        """Ours, and nobody's from now on; `unless_rung_since` is an expression for the rings that were noted."""
        condition, values = "holder = :me", {}
        if unless_rung_since:
            condition, values = (
                "holder = :me AND rings = :noted",
                {":noted": {"N": jsonata(f"$string({unless_rung_since})")}},
            )
        return self._update(
            "REMOVE holder, leaseUntil", condition, values, next=next, assign=assign, catch=catch, output=output
        )

    def ring(self, *, next: str, catch: Sequence[Catch]) -> State:
        """Whoever holds the lease looks again before it gives it back."""
        return TaskState(
            resource=self.integrations.service("dynamodb:updateItem"),
            arguments={
                "TableName": self.table,
                "Key": LEASE_KEY,
                "UpdateExpression": "ADD rings :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            },
            timeout=10,
            next=next,
            catch=catch,
        ).render()

    def _update(
        self,
        update: str,
        condition: str,
        values: Mapping[str, Any],
        *,
        next: str,
        assign: Mapping[str, str],
        catch: Sequence[Catch],
        output: Any = RESULT,
    ) -> State:
        return TaskState(
            resource=self.integrations.service("dynamodb:updateItem"),
            arguments={
                "TableName": self.table,
                "Key": LEASE_KEY,
                "UpdateExpression": update,
                "ConditionExpression": condition,
                "ExpressionAttributeValues": {":me": {"S": EXECUTION_ARN}, **values},
                "ReturnValues": "ALL_NEW",
            },
            timeout=10,
            next=next,
            assign=assign,
            output=output,
            catch=catch,
        ).render()


def attribute(name: str) -> str:
    """A number of the item, as it is after the update."""
    return jsonata(f"$number($states.result.Attributes.{name}.N)")
