"""What a survey did not find: items `ABSENT`, one each, written only by survey_instances.

Nothing is done about an absence before a second survey confirms it (`joiner.lifecycle.orphans`). An item stays while
every survey does.
"""

from collections.abc import Collection, Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.ledger_items import number, text
from joiner.item_keys import ABSENT, UNUSED

KEPT: Final = 24 * 3600  # seconds; if the sweeps stop, the first look after a day begins anew


class Absences(DynamoTable):
    """The records of absences."""

    _kind = ABSENT

    def since(self) -> Mapping[str, int]:
        """When each absence was first seen, in epoch seconds."""
        return dict(
            self._read(self._kind, self._query(self._kind), lambda item: (text(item, "id"), number(item, "since")))
        )

    def keep(self, seen: Collection[str], known: Collection[str], now: int) -> None:
        """Remember those that are `seen` now, and forget those `known` from before that are not.

        One that could not be read begins anew: nothing is done about it before two more looks.
        """
        for each in sorted(self.unreadable_ids(self._kind)):
            self._delete(self._kind, each)
        for each in sorted(set(seen) - set(known)):
            values = {":now": now, ":expires": now + KEPT}
            self._update(self._kind, each, "SET since = if_not_exists(since, :now), expires = :expires", values)
        for each in sorted(set(known) - set(seen)):
            self._delete(self._kind, each)


class Disuse(Absences):
    """Since when access entries, instance profiles and roles of earlier settings have been unused: items `UNUSED`, of
    keep_node_access.
    """

    _kind = UNUSED
