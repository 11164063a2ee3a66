"""The last detection of drift: one item `DRIFT`, written by detect_drift and read by survey_cluster."""

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, number, text
from joiner.disruption.drift_schedule import DriftLook
from joiner.item_keys import DRIFT, LAST_LOOK


class DriftLooks(DynamoTable):
    """The record of the last detection."""

    def last(self) -> DriftLook:
        """Return the last detection. An unreadable item counts as none: the next detection replaces it."""
        item = self._get(DRIFT, LAST_LOOK)
        return next(iter(self._read(DRIFT, [item] if item else [], _look)), DriftLook())

    def note(self, digest: str, now: int) -> None:
        """Record a detection at `now` (epoch seconds)."""
        self._update(
            DRIFT, LAST_LOOK, "SET digest = :digest, #at = :at", {":digest": digest, ":at": now}, names={"#at": "at"}
        )


def _look(item: Item) -> DriftLook:
    return DriftLook(text(item, "digest"), number(item, "at"))
