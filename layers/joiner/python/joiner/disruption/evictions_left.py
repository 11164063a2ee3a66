"""How many evictions the PodDisruptionBudgets still allow while the nodes of a wave are chosen.

A node may have more pods of a budget than it allows at once: the drain evicts them one after the other, as the budget
allows. A wave takes such a node if no other node of the wave uses the budget; else no node with more than is left.

A node with a deadline is taken only if its drain ends before that. Source: Kubernetes and Karpenter delete the pods
that are left at the end of a terminationGracePeriod against their budgets; Karpenter also does so on nodes that it
consolidates. Here no voluntary disruption begins a drain that its budgets may not finish in time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from joiner.cluster import PodDisruptionBudget
from joiner.disruption.budgets_of_pods import BudgetsOfPods, DrainedNode

REPLACED_SECONDS: Final = 300
"""How long a budget may wait for the next eviction after an evicted pod has ended: its successor must be ready."""


class EvictionsLeft:
    """The evictions that are left. ``rollouts`` are the keys of the pods that a rollout replaces."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget], rollouts: Collection[str] = ()) -> None:
        self._of_pods = BudgetsOfPods(budgets, rollouts)
        self._left = {budget.key: budget.allowed for budget in budgets}
        self._used: set[str] = set()

    def refusal(self, nodes: Sequence[DrainedNode]) -> str:
        """Return the budget that does not allow to remove these nodes together, or an empty text."""
        each = [(node, self._count(node)) for node in nodes]
        for key, number in sum((counted for _, counted in each), Counter[str]()).items():
            if number > self._left[key] and not self._drains_alone(key, [node for node, used in each if key in used]):
                return f"PodDisruptionBudget {key} allows {max(0, self._left[key])} more evictions"
        return ""

    def take(self, nodes: Iterable[DrainedNode]) -> None:
        """Use the budgets for these nodes."""
        for key, number in sum(map(self._count, nodes), Counter[str]()).items():
            self._left[key] -= number
            self._used.add(key)

    def _drains_alone(self, key: str, using: Sequence[DrainedNode]) -> bool:
        """Return whether only one node of the wave has pods of this budget, which allows an eviction now, and their
        drain one after the other ends before the deadline of the node."""
        if len(using) != 1 or self._left[key] <= 0 or key in self._used:
            return False
        deadline = using[0].deadline
        return deadline is None or self._longest_drain(key, using[0]) <= deadline

    def _longest_drain(self, key: str, node: DrainedNode) -> int:
        """Return the seconds in which the drain evicts the pods of a budget, if each eviction that the budget does not
        allow now waits for the one before."""
        graces = [pod.grace_seconds for pod in node.pods if key in self._count(replace(node, pods=[pod]))]
        waits = max(0, len(graces) - self._left[key])
        return waits * (max(graces, default=0) + REPLACED_SECONDS) + max(graces, default=0)

    def _count(self, node: DrainedNode) -> Counter[str]:
        """Count the evictions by the key of the budget that allows them."""
        limited = node.deadline is not None
        found = (self._of_pods.counting(pod, has_deadline=limited) for pod in node.pods)
        return Counter(budget.key for budget in found if budget is not None)
