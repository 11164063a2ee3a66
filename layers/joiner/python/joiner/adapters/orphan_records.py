"""Absences that a survey found: one item `ABSENT` each, written only by survey_instances.

Nothing is done about an absence before a second survey confirms it (`joiner.lifecycle.orphans`). An item is kept as
long as every survey finds the absence.
"""

from collections.abc import Collection

from joiner.adapters.lasting_records import KEPT, LastingRecords
from joiner.item_keys import ABSENT, IMPAIRED, UNUSED


class Absences(LastingRecords):
    """The records of absences. If the sweeps stop, the first survey after a day starts again."""

    _kind = ABSENT

    def keep(self, seen: Collection[str], known: Collection[str], now: int) -> None:
        """Record the absences that are `seen` now, postpone the end of those that end soon, and delete the `known` ones
        that are not seen.

        An unreadable record starts again: nothing is done about it before two more surveys.
        """
        for each in sorted(self.unreadable_ids(self._kind)):
            self._delete(self._kind, each)
        lasting = set(known) & self._ends.keys() - set(self.ending(now))
        for each in sorted(set(seen) - lasting):
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
