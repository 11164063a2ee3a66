"""How many evictions the PodDisruptionBudgets still allow while the nodes of a wave are chosen.

A node may have more pods of a budget than it allows at once: the drain evicts them one after the other, as the budget
allows. A wave takes such a node if no other node of the wave uses the budget; else no node with more than is left.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from joiner.cluster import Pod, PodDisruptionBudget
from joiner.disruption.disruption_candidates import BudgetsOfPods


class EvictionsLeft:
    """The evictions that are left. A node is given by its pods that need another node."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget]) -> None:
        self._of_pods = BudgetsOfPods(budgets)
        self._left = {budget.key: budget.allowed for budget in budgets}
        self._used: set[str] = set()

    def refusal(self, nodes: Sequence[Iterable[Pod]]) -> str:
        """Return the budget that does not allow to remove these nodes together, or an empty text."""
        each = [self._count(pods) for pods in nodes]
        for key, number in sum(each, Counter[str]()).items():
            if number > self._left[key] and not self._drains_alone(key, each):
                return f"PodDisruptionBudget {key} allows {max(0, self._left[key])} more evictions"
        return ""

    def take(self, nodes: Sequence[Iterable[Pod]]) -> None:
        """Use the budgets for these nodes."""
        for key, number in sum(map(self._count, nodes), Counter[str]()).items():
            self._left[key] -= number
            self._used.add(key)

    def _drains_alone(self, key: str, nodes: Iterable[Mapping[str, int]]) -> bool:
        """Return whether only one node of the wave has pods of this budget, which allows an eviction now."""
        return self._left[key] > 0 and key not in self._used and sum(key in node for node in nodes) == 1

    def _count(self, pods: Iterable[Pod]) -> Counter[str]:
        """Count the evictions by the key of the budget that allows them."""
        return Counter(budget.key for pod in pods if (budget := self._of_pods.counting(pod)) is not None)
