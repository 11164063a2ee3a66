"""Absences that a survey found: one item `ABSENT` each, written only by survey_instances.

Nothing is done about an absence before a second survey confirms it (`joiner.lifecycle.orphans`). An item is kept as
long as every survey finds the absence.
"""

from collections.abc import Collection, Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import number, text
from joiner.item_keys import ABSENT, IMPAIRED, UNUSED

KEPT: Final = 24 * 3600  # seconds; if the sweeps stop, the first survey after a day starts again


class Absences(DynamoTable):
    """The records of absences."""

    _kind = ABSENT

    def since(self) -> Mapping[str, int]:
        """Return the time of each absence's first survey, in epoch seconds."""
        return dict(
            self._read(self._kind, self._query(self._kind), lambda item: (text(item, "id"), number(item, "since")))
        )

    def keep(self, seen: Collection[str], known: Collection[str], now: int) -> None:
        """Record the absences that are `seen` now, and delete the `known` ones that are not.

        An unreadable record starts again: nothing is done about it before two more surveys.
        """
        for each in sorted(self.unreadable_ids(self._kind)):
            self._delete(self._kind, each)
        for each in sorted(set(seen) - set(known)):
            values = {":now": now, ":expires": now + KEPT}
            self._update(self._kind, each, "SET since = if_not_exists(since, :now), expires = :expires", values)
        for each in sorted(set(known) - set(seen)):
            self._delete(self._kind, each)


class Impairments(Absences):
    """Start of the impairment of instances that fail EC2's status checks: items `IMPAIRED`, of survey_instances."""

    _kind = IMPAIRED


class Disuse(Absences):
    """Start of disuse of access entries, instance profiles and roles of earlier settings: items `UNUSED`, of
    keep_node_access.
    """

    _kind = UNUSED
