"""Which PodDisruptionBudgets the drain of a node needs, pod by pod.

The only pod of a workload that leaves by a rollout (`joiner.lifecycle.rollout`) needs none: its Deployment starts the
next one elsewhere, and removes it when that one is available. So a budget that allows no eviction of a single replica
does not keep its node. The snapshot names the pods whose Deployments were found to do so (``Snapshot.rollouts``): the
drain evicts other pods, whatever their annotation asks for. A node with a deadline is an exception: the drain deletes
what is left then, whatever the rollout does.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from joiner.cluster import Pod, PodDisruptionBudget


@dataclass(frozen=True, slots=True)
class DrainedNode:
    """The ``pods`` of a node that need another one. If there is a ``deadline`` (the terminationGracePeriod in seconds),
    the drain deletes the pods that are left then, against their budgets."""

    pods: Sequence[Pod]
    deadline: int | None = None


def find_pods_of_rollouts(pods: Collection[Pod]) -> frozenset[str]:
    """Return the keys of the pods that a rollout may replace: they ask for it, and are the only one of a ReplicaSet.
    Their Deployment decides whether it does.

    >>> web = Pod("shop", "web-0", owner_kind="ReplicaSet", owner_name="web-5f", leaves_by_rollout=True)
    >>> sorted(find_pods_of_rollouts([web, Pod("shop", "db-0", owner_kind="StatefulSet", leaves_by_rollout=True)]))
    ['shop/web-0']
    """
    asking = [pod for pod in pods if pod.leaves_by_rollout and pod.owner_kind == "ReplicaSet"]
    if not asking:
        return frozenset()
    number = Counter(map(_owner_of, (pod for pod in pods if not pod.terminal and not pod.deletion)))
    return frozenset(pod.key for pod in asking if number[_owner_of(pod)] == 1)


def _owner_of(pod: Pod) -> tuple[str, str, str]:
    return pod.namespace, pod.owner_kind, pod.owner_name


class BudgetsOfPods:
    """The PodDisruptionBudgets of each pod. They are looked up once for pods with equal labels.

    ``rollouts`` are the keys of the pods that a rollout replaces.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget], rollouts: Collection[str] = ()) -> None:
        self._of_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for budget in budgets:
            self._of_namespace[budget.namespace].append(budget)
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], tuple[PodDisruptionBudget, ...]] = {}
        self._by_rollout = frozenset(rollouts)

    def of(self, pod: Pod, *, has_deadline: bool) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that select the pod and that a drain with or without a deadline needs: none for a pod that
        the drain leaves on its node. Source: Karpenter, core `pkg/utils/pdb`."""
        budgets = self._of_namespace.get(pod.namespace)
        if not budgets or (pod.key in self._by_rollout and not has_deadline):
            return ()
        known = (pod.namespace, frozenset(pod.labels.items()))
        if known not in self._known:
            self._known[known] = tuple(budget for budget in budgets if budget.selects(pod))
        found = self._known[known]
        return () if found and pod.outlasts_drain else found

    def counting(self, pod: Pod, *, has_deadline: bool) -> PodDisruptionBudget | None:
        """Return the budget that an eviction of the pod uses, or None."""
        found = self.of(pod, has_deadline=has_deadline)
        return found[0] if len(found) == 1 and not found[0].exempts(pod) else None

    def blocks(self, pod: Pod, *, has_deadline: bool) -> str:
        """Return why the budgets of the pod do not allow its eviction now, or an empty text."""
        found = self.of(pod, has_deadline=has_deadline)
        if len(found) > 1:
            named = " and ".join(budget.key for budget in found)
            return f"pod {pod.key} has several PodDisruptionBudgets ({named}), and the eviction API refuses such pods"
        if found and found[0].allowed <= 0 and not found[0].exempts(pod):
            return f"PodDisruptionBudget {found[0].key} allows no eviction of pod {pod.key}"
        return ""
