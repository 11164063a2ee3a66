"""Items that are kept as long as what they record lasts: each has the time of its first record, and an end.

The end is postponed when it comes near, not each time, because a write costs money.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, number, text

KEPT: Final = 24 * 3600  # seconds
POSTPONED_BEFORE: Final = KEPT // 2  # seconds before the end of an item


class LastingRecords(DynamoTable):
    """The items of one kind."""

    _kind: ClassVar[str]

    def __init__(self, client: Any, table: str) -> None:
        super().__init__(client, table)
        self._ends: Mapping[str, int] = {}

    def since(self) -> Mapping[str, int]:
        """Return the time of each first record, in epoch seconds, by id. `ending` uses the ends that this reads."""
        listed = self._read(self._kind, self._query(self._kind), _read_item)
        self._ends = {each: end for each, _, end in listed}
        return {each: since for each, since, _ in listed}

    def ending(self, now: int) -> list[str]:
        """Return the ids of the items that end within half a day."""
        return sorted(each for each, end in self._ends.items() if end - now <= POSTPONED_BEFORE)


def _read_item(item: Item) -> tuple[str, int, int]:
    """Return the id, the time of the first record and the end of an item."""
    return text(item, "id"), number(item, "since"), number(item, "expires")
