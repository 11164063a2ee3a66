"""Whether an action is worth its evictions, by the policy and the limits of each pool that it takes nodes from.

Source: Karpenter, core `pkg/controllers/disruption/balanced.go`, designs (consolidation policy Balanced). ``WhenEmpty``
removes empty nodes only; ``WhenEmptyOrUnderutilized`` accepts any saving; ``Balanced`` compares the share of the pool's
price that is saved with the share of the pool's eviction cost that is spent.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from joiner import names
from joiner.disruption.disruption_candidates import Candidate, workload_of
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.pools import NodePool

BALANCE: Final = 2.0
"""Karpenter's k: an action is accepted from a score of 1/k."""
LEAST_SAVING: Final = 1e-6
"""$/h. A smaller saving is an error of rounding."""
NEAR: Final = 0.08
"""While the price is above the lower bound by at most this share, repacks by several new nodes need a score."""
LEAST_REPACK_SCORE: Final = 0.2
"""The score that they need: the saved share of the price by the spent share of the eviction cost."""


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """The price ($/h) and the eviction cost of all initialized nodes of each pool, by the pool's key."""

    price: Mapping[str, float]
    eviction_cost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PriceGoal:
    """The price of the cluster and its lower bound in $/h, and the share above it at which a wave ends."""

    price: float
    lower_bound: float
    gap: float

    @property
    def saving_wanted(self) -> float:
        """Return what the wave is to save in $/h; negative if it is to save nothing."""
        return self.price - self.lower_bound * (1 + self.gap)

    def is_poor_repack(self, saved: float, saving: float, eviction_cost: float, totals: PoolTotals) -> bool:
        """Return whether a repack needs a score, because $``saved``/h of the price are saved by the other actions, and
        does not have it."""
        if self.price - saved > self.lower_bound * (1 + NEAR):
            return False
        spent = eviction_cost / sum(totals.eviction_cost.values())
        return saving / self.price < LEAST_REPACK_SCORE * spent


def balanced_score(removed: Sequence[Candidate], saving: float, totals: PoolTotals) -> float | None:
    """Return the lowest score of the pools with policy Balanced; None if there is none.

    The saving is divided among the pools by the price of their removed nodes.
    """
    price: dict[str, float] = defaultdict(float)
    cost: dict[str, float] = defaultdict(float)
    for one in removed:
        price[one.pool.key] += one.price
        cost[one.pool.key] += one.eviction_cost
    whole = sum(price.values())
    balanced = {one.pool.key for one in removed if one.pool.disruption.policy == "Balanced"}
    scores = []
    for pool in balanced:
        mine = saving * price[pool] / whole if whole else 0.0
        saved = mine / totals.price[pool] if totals.price.get(pool) else 0.0
        spent = cost[pool] / totals.eviction_cost[pool] if totals.eviction_cost.get(pool) else 1.0
        scores.append(saved / spent)
    return min(scores, default=None)


def worthless(removed: Sequence[Candidate], saving: float, totals: PoolTotals) -> str:
    """Return why the action is not worth its evictions, or an empty text."""
    if saving <= LEAST_SAVING:
        return "it would save nothing"
    price = sum(one.price for one in removed)
    for pool in _pools(removed):
        limits = pool.disruption.limits
        if saving < limits.least_saving_per_hour:
            least = f"${limits.least_saving_per_hour:g}/h ({names.LEAST_SAVING})"
            return f"it would save ${saving:.4f}/h, less than the {least} of {pool.key}"
        if price and 100 * saving / price < limits.least_saving_percent:
            least = f"{limits.least_saving_percent:g} % ({names.LEAST_SAVING_PERCENT})"
            return f"it would save {100 * saving / price:.1f} %, less than the {least} of {pool.key}"
    score = balanced_score(removed, saving, totals)
    if score is not None and score < 1 / BALANCE:
        return f"its score {score:.2f} is below {1 / BALANCE:g} (policy Balanced)"
    return ""


def fixed_by_policy(candidate: Candidate, *, now: datetime, history: DisruptionHistory) -> str:
    """Return why a node with pods is not consolidated, or an empty text."""
    disruption = candidate.pool.disruption
    if disruption.policy == "WhenEmpty":
        return f"the consolidation policy of {candidate.pool.key} is WhenEmpty, and the node is not empty"
    if disruption.limits.unreadable:
        return f"an annotation of {candidate.pool.key} is not valid, and the node is not empty"
    wait = timedelta(seconds=disruption.limits.workload_cool_down)
    for pod in candidate.pods if wait else ():
        moved = history.moves.get(workload_of(pod))
        if moved is not None and moved + wait > now:
            return f"pod {pod.key}'s workload has been moved within {names.WORKLOAD_COOL_DOWN}"
    return ""


def may_replace(removed: Sequence[Candidate], *, now: datetime, history: DisruptionHistory) -> bool:
    """Return whether no pool of these nodes waits after a failed replacement, or for an overdue one."""
    return not any(history.waits(one.pool.key, now) for one in removed)


def _pools(removed: Iterable[Candidate]) -> list[NodePool]:
    return list({one.pool.key: one.pool for one in removed}.values())
