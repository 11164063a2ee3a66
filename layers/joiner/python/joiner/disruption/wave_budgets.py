"""The budgets of one wave: nodes of a pool by reason, evictions of each PodDisruptionBudget, evictions of a pool a day.

Source: Karpenter, "Disruption" (NodePool disruption budgets). Nodes that leave for any reason, and nodes that are not
ready, count against every reason of their pool.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from joiner import names
from joiner.disruption.disruption_candidates import Candidate, CandidateSearch
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.evictions_left import EvictionsLeft
from joiner.planning import Snapshot
from joiner.pools.disruption_budgets import Reason, count_allowed_disruptions


class WaveBudgets:
    """What is left of the budgets. ``take`` uses them up; it must be called once for each action of the wave."""

    def __init__(
        self, snapshot: Snapshot, found: CandidateSearch, *, now: datetime, history: DisruptionHistory
    ) -> None:
        self._pools = {pool.key: pool for pool in snapshot.pools}
        self._found = found
        self._now = now
        self._history = history
        self._evictions_left = EvictionsLeft(snapshot.disruption_budgets, snapshot.rollouts)
        self._taken: Counter[str] = Counter()
        self._evicted: Counter[str] = Counter(history.evictions)
        self._allowed: dict[tuple[str, Reason], int] = {}

    def allowed(self, pool: str, reason: Reason) -> int:
        """Return how many more nodes of the pool (by key) may be disrupted for this reason."""
        if (pool, reason) not in self._allowed:
            self._allowed[pool, reason] = count_allowed_disruptions(
                self._pools[pool].disruption.budgets,
                reason,
                nodes=self._found.initialized.get(pool, 0),
                now=self._now,
                zone=self._pools[pool].disruption.settings.time_zone,
            ) - self._found.disrupting.get(pool, 0)
        return max(0, self._allowed[pool, reason] - self._taken[pool])

    def refusal(self, candidates: Sequence[Candidate], reason: Reason) -> str:
        """Return the budget that does not allow the disruption of these nodes together, or an empty text."""
        for pool, number in Counter(one.pool.key for one in candidates).items():
            if number > self.allowed(pool, reason):
                return f"the budgets of {pool} allow {self.allowed(pool, reason)} more nodes for {reason}"
        if refused := self._evictions_left.refusal([one.drained for one in candidates]):
            return refused
        if reason == "Empty":
            return ""
        for pool, number in _pods_by_pool(candidates).items():
            most = self._pools[pool].disruption.limits.evictions_per_day
            if most is not None and self._evicted[pool] + number > most:
                used = f"{self._evicted[pool]} are used ({names.MOST_EVICTIONS})"
                return f"{pool} allows {most} evictions a day, and {used}"
        return ""

    def take(self, candidates: Sequence[Candidate], reason: Reason) -> None:
        """Use the budgets for these nodes."""
        self._taken.update(one.pool.key for one in candidates)
        self._evictions_left.take([one.drained for one in candidates])
        if reason != "Empty":
            self._evicted.update(_pods_by_pool(candidates))


def _pods_by_pool(candidates: Iterable[Candidate]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in candidates:
        found[one.pool.key] += len(one.pods)
    return found
