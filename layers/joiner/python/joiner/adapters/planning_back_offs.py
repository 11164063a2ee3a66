"""The back-off of pods that no plan helped: one item `ANSWERED`, written under the lease.

plan_capacity writes it when no plan helps, record_node_claims and record_launches when nothing can be launched. It only
saves planning: without the item, or with an old one, every pod is planned for.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.ledger_items import Item, text
from joiner.item_keys import ANSWERED, PENDING_PODS
from joiner.lifecycle.planning_back_off import PendingPodClass, PlanningBackOff, back_off_after_refusal

KEPT: Final = 24 * 3600  # seconds; far beyond the longest back-off


class PlanningBackOffs(DynamoTable):
    """The back-off of pods that no plan helped."""

    def all(self) -> dict[str, PlanningBackOff]:
        """The last answers, by class of pods. An item that cannot be read counts as none: every pod is looked at, and
        it is replaced.
        """
        item = self._get(ANSWERED, PENDING_PODS)
        return next(iter(self._read(ANSWERED, [item] if item else [], _answers)), {})

    def refuse(self, asked: Mapping[str, PendingPodClass], classes: Collection[str], now: int) -> None:
        """No launch can be made for pods of these classes; they wait for longer each time."""
        before = self.all()
        after = back_off_after_refusal(asked, classes, before, now)
        if after != before:
            self.put(after, now)

    def put(self, answers: Mapping[str, PlanningBackOff], now: int) -> None:
        """The answers of the last plan, in place of all others."""
        kept = {
            key: (each.question.pods, each.question.newest, each.question.digest, each.tries, each.until)
            for key, each in answers.items()
        }
        said = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        self._update(
            ANSWERED,
            PENDING_PODS,
            "SET classes = :classes, expires = :expires",
            {":classes": said, ":expires": now + KEPT},
        )


def _answers(item: Item) -> dict[str, PlanningBackOff]:
    said = text(item, "classes")
    return {
        key: PlanningBackOff(PendingPodClass(int(pods), str(newest), str(digest)), int(tries), int(until))
        for key, (pods, newest, digest, tries, until) in (json.loads(said) if said else {}).items()
    }
