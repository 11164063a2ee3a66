"""Failed writes of claims, on the items of their launch and of their assignment: the sweep reads when they are due
again.
"""

from collections.abc import Collection

from joiner import item_keys
from joiner.adapters.dynamodb_table import DynamoTable
from joiner.lifecycle.failed_writes import FailedWrites

FAILED = "failedTries = :tries, failedSince = :since, failedAt = :at"


class FailedWriteRecords(DynamoTable):
    """The failed writes of one deployment."""

    def note_incomplete(self, launch_id: str, failed: FailedWrites, counted: Collection[str]) -> None:
        """Record the failed writes of a launch, and all claims of which the outcome has been reported."""
        self._try_update(
            item_keys.LAUNCH,
            launch_id,
            f"SET {FAILED}, counted = :counted",
            {**_values(failed), ":counted": tuple(sorted(counted)), ":closed": "closed"},
            condition="#state = :closed",
            names={"#state": "state"},
        )

    def note_undeleted(self, claim: str, failed: FailedWrites) -> None:
        """Record on its assignment that a claim could not be deleted."""
        self._try_update(
            item_keys.ASSIGNMENT, claim, f"SET {FAILED}", _values(failed), condition="attribute_exists(classes)"
        )


def _values(failed: FailedWrites) -> dict[str, int]:
    return {":tries": failed.tries, ":since": failed.since, ":at": failed.at}
