"""The doorbell's secret is replaced in two steps, so that no ring is refused at any time between them.

`begin` stores the next secret: the doorbell accepts it beside the current one as soon as it reads it. A sandbox that
has just read the secrets reads them again after `READ_AGAIN_AFTER`; so long the installer waits, and then writes the
next secret into the webhook. `finish` makes it the current one and lets the one before it stay valid for a while,
because API servers learn of a changed webhook one after the other. An installation that dies between the two leaves
both valid; the next one goes on with the same secret.
"""

from datetime import datetime, timedelta
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.ledger_items import DoorbellSecrets
from joiner.item_keys import DOORBELL, TOKEN

READ_AGAIN_AFTER: Final = timedelta(seconds=5)
"""An unknown secret makes a sandbox of the doorbell read them again no more often than this: a flood of them costs few
reads.
"""

PREVIOUS_VALID: Final = timedelta(minutes=15)
"""API servers see a changed webhook within seconds; the rest is for a control plane that is busy or replaced meanwhile.
"""


class DoorbellRotation(DynamoTable):
    """The item `DOORBELL/token`, as the installer writes it."""

    def begin(self, fresh: str) -> DoorbellSecrets:
        """The secrets with a following one: `fresh`, or what an earlier installation left that did not finish."""
        return DoorbellSecrets.of(
            self._update(DOORBELL, TOKEN, "SET following = if_not_exists(following, :fresh)", {":fresh": fresh})
        )

    def finish(self, begun: DoorbellSecrets, now: datetime) -> None:
        """The webhook has the following secret. Called again with the same secrets, it changes nothing but the time."""
        values = {
            ":current": begun.following,
            ":previous": begun.current,
            ":until": int((now + PREVIOUS_VALID).timestamp()),
        }
        expression = "SET #value = :current, previous = :previous, previousUntil = :until REMOVE following"
        self._update(DOORBELL, TOKEN, expression, values, names={"#value": "value"})
