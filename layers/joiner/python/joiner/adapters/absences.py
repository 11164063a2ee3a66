"""What was not there when a sweep looked: items `ABSENT`, one each, written by survey_instances alone.

Nothing is done about an absence before a second look agrees (`joiner.lifecycle.orphans`); an item stands while every look agrees.
"""

from collections.abc import Collection, Mapping
from typing import Final

from joiner.adapters.ledger_items import number, text
from joiner.adapters.table import Table

ABSENT: Final = "ABSENT"
KEPT: Final = 24 * 3600  # seconds; if the sweeps stop, the first look after a day begins anew


class Absences(Table):
    """The memory of absences."""

    def since(self) -> Mapping[str, int]:
        """When each absence was first seen, in epoch seconds."""
        return {text(item, "id"): number(item, "since") for item in self._query(ABSENT)}

    def keep(self, seen: Collection[str], known: Collection[str], now: int) -> None:
        """Remember those that are `seen` now, and forget those `known` from before that are not."""
        for each in sorted(set(seen) - set(known)):
            self._update(ABSENT, each, "SET since = if_not_exists(since, :now), expires = :expires", {":now": now, ":expires": now + KEPT})
        for each in sorted(set(known) - set(seen)):
            self._delete(ABSENT, each)
