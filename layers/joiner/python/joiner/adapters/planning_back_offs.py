"""The back-off of pods that no plan can place: one item `ANSWERED`, written under the lease.

plan_capacity writes it when no plan helps, record_node_claims and record_launches when nothing can be launched. It only
saves planning: without the item, or with an old one, every pod is planned for.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, text
from joiner.item_keys import ANSWERED, PENDING_PODS
from joiner.lifecycle.planning_back_off import PendingPodClass, PlanningBackOff, back_off_after_refusal

KEPT: Final = 24 * 3600  # seconds; far more than the longest back-off


class PlanningBackOffs(DynamoTable):
    """The back-off of pods that no plan can place."""

    def all(self) -> dict[str, PlanningBackOff]:
        """Return the last answers, by pod class. An unreadable item counts as no answers: every pod is planned for, and
        the item is replaced.
        """
        return self._get_or_default(ANSWERED, PENDING_PODS, _answers, {})

    def refuse(self, asked: Mapping[str, PendingPodClass], classes: Collection[str], now: int) -> None:
        """Record that no launch is possible for pods of these classes; their back-off becomes longer each time."""
        before = self.all()
        after = back_off_after_refusal(asked, classes, before, now)
        if after != before:
            self.put(after, now)

    def put(self, answers: Mapping[str, PlanningBackOff], now: int) -> None:
        """Store the answers of the last plan, replacing all others."""
        kept = {
            key: (each.pending.pods, each.pending.newest, each.pending.digest, each.tries, each.until)
            for key, each in answers.items()
        }
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        self._update(
            ANSWERED,
            PENDING_PODS,
            "SET classes = :classes, expires = :expires",
            {":classes": text, ":expires": now + KEPT},
        )


def _answers(item: Item) -> dict[str, PlanningBackOff]:
    stored = text(item, "classes")
    return {
        key: PlanningBackOff(PendingPodClass(int(pods), str(newest), str(digest)), int(tries), int(until))
        for key, (pods, newest, digest, tries, until) in (json.loads(stored) if stored else {}).items()
    }
