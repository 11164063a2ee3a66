"""The items of pools that launch no node for pods of a class, kind `HELD`.

Written by check_registration and, for nodes whose instances ended, by begin_retirement; deleted by check_registration;
read by the functions that plan, or decide whether a plan is due. The id is ``POOL CLASS DEVICE``: the pool's key, the
key of the pod class (empty for the replicas of a static pool), and the extended resource that the nodes do not register
(empty if none is missing). An item without a hold only counts. A plan ignores an item of another edition.
"""

from typing import TYPE_CHECKING, Final

from joiner import item_keys
from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, number, text
from joiner.lifecycle.launch_back_off import BACK_OFF_RESET_AFTER

if TYPE_CHECKING:  # Every function imports the ledger, and few need pools.
    from joiner.pools.pool_holds import PoolHold

UNCHANGED: Final = "attribute_not_exists(failedAt) OR failedAt = :before"
CAUSE_KEPT: Final = 600
"""Characters of the cause: the text of an event is cut at 1,024."""


class PoolHoldRecords(DynamoTable):
    """The holds of one deployment."""

    def pool_holds(self) -> "list[PoolHold]":
        """Return all items: those that hold, those whose wait is over, and those that only count."""
        return self._read(item_keys.HELD, self._query(item_keys.HELD), _hold)

    def put_pool_hold(self, hold: "PoolHold", before: "PoolHold | None") -> bool:
        """Write a hold instead of the one that was read; return False if another execution counted meanwhile."""
        return self._try_update(
            item_keys.HELD,
            hold.id,
            "SET edition = :edition, launchedAt = :launched, failedAt = :failed, failures = :failures, "
            "#until = :until, claim = :claim, cause = :cause, expires = :expires",
            {
                ":edition": hold.edition,
                ":launched": hold.launched_at,
                ":failed": hold.failed_at,
                ":failures": hold.failures,
                ":until": hold.until,
                ":claim": hold.claim,
                ":cause": hold.cause[:CAUSE_KEPT],
                ":expires": max(hold.until, hold.failed_at) + BACK_OFF_RESET_AFTER,
                ":before": before.failed_at if before else -1,
            },
            condition=UNCHANGED,
            names={"#until": "until"},
        )

    def forget_pool_hold(self, hold: "PoolHold") -> None:
        """Delete a hold with its count."""
        self._delete(item_keys.HELD, hold.id)


def _hold(item: Item) -> "PoolHold":
    from joiner.pools.pool_holds import PoolHold

    pool, class_key, device = text(item, "id").split(" ")
    return PoolHold(
        pool=pool,
        class_key=class_key,
        device=device,
        edition=text(item, "edition"),
        launched_at=number(item, "launchedAt"),
        failed_at=number(item, "failedAt"),
        failures=number(item, "failures"),
        until=number(item, "until"),
        claim=text(item, "claim"),
        cause=text(item, "cause"),
    )
