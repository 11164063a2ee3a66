"""Start times of the emptiness of nodes: one item `EMPTY` for each claim, written only by survey_cluster.

An item is kept as long as every sweep finds the node empty: it does not expire, because a pool may keep empty nodes
for weeks. A request for its retirement sets `requested_until` and
`requested_by`. Before `requested_until` no other sweep requests it, because that retirement may not have begun.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, number, text
from joiner.item_keys import EMPTY


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """One claim whose node is empty; times in epoch seconds. `expires` is set by earlier versions, else 0."""

    claim: str
    since: int
    requested_until: int = 0
    requested_by: str = ""
    expires: int = 0

    @classmethod
    def of(cls, item: Item) -> "EmptyNode":
        """Read an item of the table."""
        return cls(
            text(item, "id"),
            number(item, "since"),
            number(item, "requestedUntil"),
            text(item, "requestedBy"),
            number(item, "expires"),
        )


class EmptyNodes(DynamoTable):
    """The records of empty nodes."""

    def all(self) -> Mapping[str, EmptyNode]:
        """Return every node that was empty at the last sweep, by claim."""
        return {each.claim: each for each in self._read(EMPTY, self._query(EMPTY), EmptyNode.of)}

    def begin(self, claim: str, now: int) -> None:
        """Record that the node is empty from `now`, unless it was empty before. An unreadable record starts again, so
        that no node is terminated too early.
        """
        if claim in self.unreadable_ids(EMPTY):
            self._delete(EMPTY, claim)
        self._update(EMPTY, claim, "SET since = if_not_exists(since, :now) REMOVE expires", {":now": now})

    def ask(self, claim: str, until: int, *, by: str) -> None:
        """Record that the sweep `by` requests the retirement; before `until` no other sweep does."""
        asked = {":until": until, ":by": by}
        self._try_update(
            EMPTY, claim, "SET requestedUntil = :until, requestedBy = :by", asked, condition="attribute_exists(since)"
        )

    def end(self, claim: str) -> None:
        """Delete the record of a node that is not empty any more, or is gone."""
        self._delete(EMPTY, claim)
