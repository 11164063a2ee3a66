"""States that take, ring and release the lease: one execution at a time decides about nodes, and no ring is lost.

The item ``LEASE/scale-up`` contains the execution that has the lease (`holder`), its end (`leaseUntil`, epoch seconds),
a number that each taking increases (`leaseNumber`), and how often the doorbell rang (`rings`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.lease_limits import LEASE_SECONDS
from infra.service_integrations import ItemUpdate, ServiceIntegrations
from infra.states_language import EXECUTION_ARN, NOW_SECONDS, RESULT, Catch, State, jsonata
from joiner.item_keys import LEASE, SCALE_UP, item_key

LEASE_KEY: Final = item_key(LEASE, SCALE_UP)

LEASE_LOST: Final = ("LeaseLost",)
"""The error of a function that finds another holder of the lease: that execution plans for the pods."""


@dataclass(frozen=True, slots=True)
class LeaseStates:
    """States for the lease in one table. A condition that is false is an error, which the caller catches."""

    integrations: ServiceIntegrations
    table: str

    def take(self, *, next: str, assign: Mapping[str, str], catch: Sequence[Catch]) -> State:
        """Take the lease if it is free, expired, or this execution's already: then the same request was sent twice."""
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
        """Release the lease of this execution.

        `unless_rung_since` is JSONata for the number of rings that the execution has read. If the doorbell rang since,
        the condition is false: the execution keeps the lease and plans again.
        """
        condition, values = "holder = :me", {}
        if unless_rung_since:
            condition += " AND rings = :noted"
            values = {":noted": {"N": jsonata(f"$string({unless_rung_since})")}}
        return self._update(
            "REMOVE holder, leaseUntil", condition, values, next=next, assign=assign, catch=catch, output=output
        )

    def ring(self, *, next: str, catch: Sequence[Catch]) -> State:
        """Count a ring: the execution that has the lease plans once more before it releases it."""
        update = ItemUpdate(LEASE_KEY, "ADD rings :one", {":one": {"N": "1"}})
        return self.integrations.update_item(self.table, update, next=next, catch=catch)

    def _update(
        self,
        expression: str,
        condition: str,
        values: Mapping[str, Any],
        *,
        next: str,
        assign: Mapping[str, str],
        catch: Sequence[Catch],
        output: Any = RESULT,
    ) -> State:
        update = ItemUpdate(
            LEASE_KEY,
            expression,
            {":me": {"S": EXECUTION_ARN}, **values},
            condition=condition,
            return_values="ALL_NEW",
        )
        return self.integrations.update_item(self.table, update, next=next, assign=assign, output=output, catch=catch)


def attribute(name: str) -> str:
    """Return JSONata for a number of the item after the update."""
    return jsonata(f"$number($states.result.Attributes.{name}.N)")
