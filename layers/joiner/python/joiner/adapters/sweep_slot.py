"""Deletions start a sweep at once: many at a time start one, and none is lost.

The webhook runs before the object is changed, so the sweep waits a second before it looks. The item `LEASE/sweep` says
when the latest started sweep looks (`looksAt`, epoch milliseconds): whoever rings well before that is covered by it.
While deletions go on and on, the next look comes a few seconds after the last.
"""

from datetime import datetime
from typing import Final

from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable
from joiner.adapters.ledger_items import STORED_AFTER, number
from joiner.item_keys import LEASE, SWEEP

FIRST: Final = 1000  # milliseconds from the first ring to the look
NEXT: Final = 4000  # milliseconds from one look to the next


class SweepSlot(DynamoTable):
    """The time of the next sweep."""

    def take(self, now: datetime) -> int:
        """Milliseconds that a sweep has to wait which the caller starts now; -1 if a sweep on its way covers the
        ring.
        """
        at = int(now.timestamp() * 1000)
        quiet = {":looks": at + FIRST, ":past": at + FIRST - NEXT}
        if self._try_update(
            LEASE, SWEEP, "SET looksAt = :looks", quiet, condition="attribute_not_exists(looksAt) OR looksAt < :past"
        ):
            return FIRST
        try:
            busy = {":next": NEXT, ":stored": at + round(STORED_AFTER * 1000)}
            item = self._update(LEASE, SWEEP, "SET looksAt = looksAt + :next", busy, condition="looksAt < :stored")
        except ConditionFailed:
            return -1
        return number(item, "looksAt") - at
