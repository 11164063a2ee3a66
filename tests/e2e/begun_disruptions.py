"""A voluntary disruption at its begin, and the rules that depend on its reason: the budgets of the pool, and the pods
that forbid it.

Joiner taints a node first and states the reason on its claim afterwards, so both are judged later, with what the
cluster was at the begin. An empty node that is deleted without a stated reason left because it was empty.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.e2e.observed_manifests import Place

EMPTY: Final = "Empty"
UNDERUTILIZED: Final = "Underutilized"
BUDGETS_OF: Final = {
    EMPTY: EMPTY,
    UNDERUTILIZED: UNDERUTILIZED,
    "Drifted": "Drifted",
    "Expired": "Drifted",
    "Rebalance": "Rebalance",  # which no budget can name
}
"""The reasons, and by which of them their budgets are chosen."""


@dataclass(frozen=True, slots=True)
class BegunDisruption:
    """`going` are the nodes of the pool that leave or are not Ready, of `total`. `allowed` is the greatest number of
    them by reason. `blocks` are the pods that forbid the disruption, which those of a node with a deadline do only if
    it is consolidated.
    """

    pool: Place
    going: Sequence[str]
    total: int
    allowed: Mapping[str, int]
    empty: bool
    blocks: Sequence[str]
    has_deadline: bool

    def violations(self, stated: Collection[str], *, deleted: bool = False) -> Iterator[str]:
        """Yield the broken rules. `stated` are the reasons that the claim states."""
        reasons = self._reasons(stated, deleted=deleted)
        allowed = max(self.allowed[BUDGETS_OF[each]] for each in reasons)
        if len(self.going) > allowed:
            yield (
                f"{len(self.going)} of {self.total} nodes of {' '.join(self.pool)} leave or are not Ready, and its "
                f"budgets allow {allowed}: {', '.join(self.going)}"
            )
        if not self.has_deadline or reasons == (UNDERUTILIZED,):
            yield from self.blocks

    def _reasons(self, stated: Collection[str], *, deleted: bool) -> tuple[str, ...]:
        """Return the possible reasons; of these only the one that the claim states, if it states a possible one."""
        possible = tuple(each for each in BUDGETS_OF if self.empty or each != EMPTY)
        if said := tuple(each for each in possible if each in stated):
            return said
        return (EMPTY,) if self.empty and deleted else tuple(each for each in possible if each != "Rebalance")
