"""The waits at the end of a drain: what a node without pods still waits for before its instance is terminated.

It waits for pods that the scheduler bound before it saw the taint, and for its volumes to be detached. A deadline ends
both waits. Source: Karpenter, core `pkg/controllers/node/termination` (awaitVolumeDetachment).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from joiner.lifecycle.draining import AT_LEAST
from joiner.lifecycle.retirement import RetirementStage, RetiringClaim
from joiner.pools import NodeClaim
from joiner.pools.retiring_nodes import DRAINED

VOLUMES_AWAITED: Final = timedelta(minutes=6)
"""From the last pod's end until the instance of a node without a claim is terminated with volumes attached: as long as
Kubernetes waits before a forced detach. Only a claim can set a limit for the drain.
"""


OPEN_AT_MOST: Final = timedelta(minutes=1)
"""For so long a node without pods is kept whose taint is missing in each pass: it is refused, or another controller
removes it. Without this limit, such a node would stay forever.
"""


@dataclass(frozen=True, slots=True)
class DrainWaits:
    """What the drain of one node waits for. `until` is its deadline, None without one."""

    retiring: RetiringClaim
    claim: NodeClaim | None
    until: datetime | None
    now: datetime

    @property
    def in_time(self) -> bool:
        """Return whether the deadline has not come."""
        return self.until is None or self.now < self.until

    @property
    def pods_may_come_until(self) -> datetime | None:
        """Return until when a pod may still appear on the node; None if that time is over, or the deadline has come.

        It counts from the taint, not from the start of the retirement: a notice, or an execution that failed, may have
        started that long before. While the node has no taint, it has not begun.
        """
        closed_at, opened_at = self.retiring.closed_at, self.retiring.opened_at
        ready_at = (datetime.fromtimestamp(closed_at, UTC) if closed_at else self.now) + AT_LEAST
        if opened_at:
            ready_at = min(ready_at, datetime.fromtimestamp(opened_at, UTC) + OPEN_AT_MOST)
        return ready_at if self.in_time and self.now < ready_at else None

    @property
    def emptied(self) -> datetime:
        """Return when the last pod was gone: from the claim or from this execution's entry, else now."""
        claim = self.claim
        since = claim.conditions[DRAINED].since if claim is not None and claim.conditions.true(DRAINED) else None
        noted = datetime.fromtimestamp(self.retiring.emptied, UTC) if self.retiring.emptied else None
        return min([moment for moment in (since, noted) if moment], default=self.now)

    def awaits(self, volumes: Sequence[str]) -> bool:
        """Return whether the instance is kept until these volumes are detached; without a claim, for a limited time."""
        return bool(volumes) and (self.claim is not None or self.now - self.emptied < VOLUMES_AWAITED)

    @property
    def volumes_awaited_until(self) -> datetime | None:
        """Return when the wait for volumes ends in any case; None if it has no end."""
        ends = [self.emptied + VOLUMES_AWAITED] if self.claim is None else []
        return min([*ends, *([self.until] if self.until else [])], default=None)

    def awaiting_pods(self) -> RetiringClaim:
        """Return the claim while pods may still come."""
        return self.retiring.at(RetirementStage.DRAINING, "no pod is left; one may still come")

    def awaiting(self, volumes: Sequence[str]) -> RetiringClaim:
        """Return the claim while these volumes are being detached."""
        why = f"volumes are detached: {', '.join(volumes[:3])}"
        waiting = self.retiring.at(RetirementStage.DRAINING, why)
        return replace(waiting, emptied=int(self.emptied.timestamp()))
