"""Rebalance recommendations of EC2: one item `RECOMMENDED` for each claim, written by handle_interruption.

The function that receives a recommendation cannot read the cluster. The next sweep reads the pool of the claim, whose
annotation decides what follows (`joiner.lifecycle.checks.claims_to_rebalance`).
"""

from collections.abc import Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import number, text
from joiner.item_keys import RECOMMENDED

KEPT: Final = 24 * 3600  # seconds; EC2 repeats a recommendation for an instance that is still at risk


class Recommendations(DynamoTable):
    """The recommendations that EC2 made for instances of this deployment."""

    def note(self, claim: str, instance: str, now: int) -> None:
        """Record a recommendation; the time of the first one stays."""
        self._update(
            RECOMMENDED,
            claim,
            "SET since = if_not_exists(since, :now), #instance = :instance, expires = :expires",
            {":now": now, ":instance": instance, ":expires": now + KEPT},
            names={"#instance": "instance"},
        )

    def since(self) -> Mapping[str, int]:
        """Return the time of each claim's first recommendation, in epoch seconds."""
        items = self._query(RECOMMENDED)
        return dict(self._read(RECOMMENDED, items, lambda item: (text(item, "id"), number(item, "since"))))
