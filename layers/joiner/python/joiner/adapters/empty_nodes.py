"""Since when nodes are empty: items `EMPTY`, one a claim, written by survey_cluster alone.

An item stands for as long as every sweep finds the node empty. `asked_until` and `asked_by` are set when its retirement
is asked for: until then no other sweep asks again, because that retirement may still be waiting for its time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.ledger_items import Item, number, text
from joiner.item_keys import EMPTY

KEPT: Final = (
    7 * 24 * 3600
)  # seconds; a claim that is gone leaves nothing behind for long, should the sweeps have stopped


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """One claim whose node is empty; times in epoch seconds."""

    claim: str
    since: int
    asked_until: int = 0
    asked_by: str = ""

    @classmethod
    def of(cls, item: Item) -> "EmptyNode":
        return cls(text(item, "id"), number(item, "since"), number(item, "askedUntil"), text(item, "askedBy"))


class EmptyNodes(DynamoTable):
    """The records of empty nodes."""

    def all(self) -> Mapping[str, EmptyNode]:
        """Every node that was empty at the last sweep, by claim."""
        return {each.claim: each for each in self._read(EMPTY, self._query(EMPTY), EmptyNode.of)}

    def begin(self, claim: str, now: int) -> None:
        """It is empty since now, unless it was before. One that could not be read begins anew: a node is never ended
        too early for it.
        """
        if claim in self.unreadable_ids(EMPTY):
            self._delete(EMPTY, claim)
        self._update(
            EMPTY,
            claim,
            "SET since = if_not_exists(since, :now), expires = if_not_exists(expires, :expires)",
            {":now": now, ":expires": now + KEPT},
        )

    def ask(self, claim: str, until: int, *, by: str) -> None:
        """The sweep `by` asks for its retirement; until then no other asks again."""
        asked = {":until": until, ":by": by}
        self._try_update(
            EMPTY, claim, "SET askedUntil = :until, askedBy = :by", asked, condition="attribute_exists(since)"
        )

    def end(self, claim: str) -> None:
        """It is not empty any more, or gone."""
        self._delete(EMPTY, claim)
