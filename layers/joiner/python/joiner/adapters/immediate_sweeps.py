"""Deletions start a sweep at once: many concurrent deletions start one sweep, and no deletion is missed.

The webhook runs before the object is changed, so the sweep waits a second before it reads. The item `LEASE/sweep`
contains the time at which the latest started sweep reads (`readsAt`, epoch milliseconds). That sweep covers every ring
sufficiently before this time. While deletions continue, the next read is a few seconds after the last.
"""

from datetime import datetime
from typing import Final

from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable
from joiner.adapters.item_attributes import number
from joiner.adapters.ledger_items import STORED_AFTER
from joiner.item_keys import LEASE, SWEEP

FIRST: Final = 1000  # milliseconds from the first ring to the read
NEXT: Final = 4000  # milliseconds from one read to the next


class ImmediateSweeps(DynamoTable):
    """The time of the next sweep."""

    def take(self, now: datetime) -> int:
        """Return the milliseconds that a sweep started now by the caller has to wait; -1 if a sweep that already
        started covers the ring.
        """
        at = int(now.timestamp() * 1000)
        quiet = {":reads": at + FIRST, ":past": at + FIRST - NEXT}
        if self._try_update(
            LEASE, SWEEP, "SET readsAt = :reads", quiet, condition="attribute_not_exists(readsAt) OR readsAt < :past"
        ):
            return FIRST
        try:
            busy = {":next": NEXT, ":stored": at + round(STORED_AFTER * 1000)}
            item = self._update(LEASE, SWEEP, "SET readsAt = readsAt + :next", busy, condition="readsAt < :stored")
        except ConditionFailed:
            return -1
        return number(item, "readsAt") - at
