"""Spot interruption warnings: one item `INTERRUPTED` for each day, instance type and zone, written by
handle_interruption.

An item has the ids of the instances, so a warning that is delivered twice counts once. `refresh_catalogue` reads all
items once an hour (`joiner.catalogue.interruption_history`).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, text, texts
from joiner.catalogue.interruption_history import DAY, HALF_LIFE, Interruptions, SpotPlace
from joiner.item_keys import INTERRUPTED

KEPT: Final = 8 * HALF_LIFE
"""Seconds after which an item ends; a warning then counts less than half a percent."""


class InterruptionWarnings(DynamoTable):
    """The warnings that spot instances of this deployment got."""

    def note(self, warned: Mapping[SpotPlace, Iterable[str]], now: int) -> None:
        """Record the instances that got a warning, by instance type and zone."""
        day = now - now % DAY
        for (name, zone), instances in warned.items():
            self._update(
                INTERRUPTED,
                f"{day}#{name}#{zone}",
                "ADD instances :instances SET expires = :expires",
                {":instances": frozenset(instances), ":expires": day + KEPT},
            )

    def all(self) -> list[Interruptions]:
        """Return the warnings of all days that are kept."""
        return self._read(INTERRUPTED, self._query(INTERRUPTED), _read_day)


def _read_day(item: Item) -> Interruptions:
    day, name, zone = text(item, "id").split("#")
    return Interruptions(name, zone, int(day), len(texts(item, "instances")))
