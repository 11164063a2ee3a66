"""What the last plans found, in two items `ANSWERED`, written under the lease.

The back-off of pods that no plan can place: plan_capacity writes it when no plan helps, record_node_claims and
record_launches when nothing can be launched. It only saves planning: without the item, or with an old one, every pod is
planned for.

The claims whose nodes have capacity for CapacityBuffers: record_node_claims writes them with each plan, before it
creates the claims of that plan. The sweep does not retire their nodes as empty.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final

from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import Item, number, text
from joiner.item_keys import ANSWERED, BUFFER_NODES, PENDING_PODS
from joiner.lifecycle.buffer_planning import BufferedClaims
from joiner.lifecycle.planning_back_off import PendingPodClass, PlanningBackOff, back_off_after_refusal

KEPT: Final = 24 * 3600  # seconds; far more than the longest back-off


class PlanningBackOffs(DynamoTable):
    """The back-off of pods that no plan can place, and the nodes that CapacityBuffers need."""

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

    def buffer_claims(self) -> BufferedClaims:
        """Return the claims whose nodes have capacity for buffers. An unreadable item counts as none: the next plan
        replaces it."""
        return self._get_or_default(ANSWERED, BUFFER_NODES, _claims, BufferedClaims())

    def put_buffer_claims(self, claims: Collection[str], now: int) -> None:
        """Store the names of these claims, of a plan at `now`, replacing all others."""
        text = json.dumps(sorted(claims), separators=(",", ":"))
        values = {":claims": text, ":planned": now, ":expires": now + KEPT}
        self._update(
            ANSWERED,
            BUFFER_NODES,
            "SET claims = :claims, plannedAt = :planned, expires = :expires",
            values,
        )


def _claims(item: Item) -> BufferedClaims:
    names = json.loads(text(item, "claims"))
    return BufferedClaims(frozenset(str(name) for name in names), number(item, "plannedAt"))


def _answers(item: Item) -> dict[str, PlanningBackOff]:
    stored = text(item, "classes")
    return {
        key: PlanningBackOff(PendingPodClass(int(pods), str(newest), str(digest)), int(tries), int(until))
        for key, (pods, newest, digest, tries, until) in (json.loads(stored) if stored else {}).items()
    }
