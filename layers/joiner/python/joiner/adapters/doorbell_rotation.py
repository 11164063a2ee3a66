"""Replacement of the doorbell's secret in two steps, so that no ring is refused between them.

`begin` stores the next secret: the doorbell accepts it beside the current one as soon as it reads it. A sandbox that
has just read the secrets reads them again after `READ_AGAIN_AFTER`. The installer waits for that time, and then writes
the next secret into the webhook. `finish` makes it the current one, and the previous one stays valid for a while,
because API servers learn of a changed webhook at different times. If an installation crashes between the two steps,
both secrets stay valid; the next installation continues with the same secret.
"""

from datetime import datetime, timedelta
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.ledger_items import DoorbellSecrets
from joiner.item_keys import DOORBELL, TOKEN

READ_AGAIN_AFTER: Final = timedelta(seconds=5)
"""Shortest time between two reads of the secrets by a sandbox that gets an unknown secret, so that many unknown secrets
cause few reads.
"""

PREVIOUS_VALID: Final = timedelta(minutes=15)
"""API servers see a changed webhook within seconds; the rest is for a control plane that is busy or replaced meanwhile.
"""


class DoorbellRotation(DynamoTable):
    """The item `DOORBELL/token`, as the installer writes it."""

    def begin(self, fresh: str) -> DoorbellSecrets:
        """Return the secrets with a following one: `fresh`, or the one of an earlier, unfinished installation."""
        return DoorbellSecrets.of(
            self._update(DOORBELL, TOKEN, "SET following = if_not_exists(following, :fresh)", {":fresh": fresh})
        )

    def finish(self, begun: DoorbellSecrets, now: datetime) -> None:
        """Make the following secret, which the webhook has, the current one. A second call with the same secrets
        changes only the time."""
        values = {
            ":current": begun.following,
            ":previous": begun.current,
            ":until": int((now + PREVIOUS_VALID).timestamp()),
        }
        expression = "SET #value = :current, previous = :previous, previousUntil = :until REMOVE following"
        self._update(DOORBELL, TOKEN, expression, values, names={"#value": "value"})
