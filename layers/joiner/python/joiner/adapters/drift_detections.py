"""The last detection of drift: one item `DRIFT`, written by detect_drift and read by survey_cluster."""

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, number, text
from joiner.disruption.drift_schedule import LastDetection
from joiner.item_keys import DRIFT, LAST_DETECTION


class DriftDetections(DynamoTable):
    """The record of the last detection."""

    def last(self) -> LastDetection:
        """Return the last detection. An unreadable item counts as none: the next detection replaces it."""
        return self._get_or_default(DRIFT, LAST_DETECTION, _detection, LastDetection())

    def note(self, digest: str, now: int) -> None:
        """Record a detection at `now` (epoch seconds)."""
        self._update(
            DRIFT,
            LAST_DETECTION,
            "SET digest = :digest, #at = :at",
            {":digest": digest, ":at": now},
            names={"#at": "at"},
        )


def _detection(item: Item) -> LastDetection:
    return LastDetection(text(item, "digest"), number(item, "at"))
