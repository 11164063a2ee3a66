"""Pods on nodes that are being drained, which the drain will not evict before a node that is launched now has long
joined: no room is launched for them yet.

Source: Karpenter, core `pkg/utils/pod/scheduling.go` (`IsCurrentlyReschedulable`) and `pkg/utils/pdb` (budgets that
block fully). A pod is held by its annotation against disruption if this has longer to run than `SOON`, by a
PodDisruptionBudget whose numbers never allow an eviction, and by two budgets, with which the eviction API refuses it.
It is not held if its drain ends within `SOON` and deletes what is left then. Once any of this changes, the next sweep
finds that the pod needs room.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime

from joiner.cluster import Node, Pod, PodDisruptionBudget
from joiner.pools.disruption_protection import protected_until
from joiner.pools.node_claim import NodeClaim
from joiner.pools.retiring_nodes import SOON, find_retiring_nodes, list_ending_drains
from joiner.pools.timestamps import parse_timestamp


def find_leaving_pods(pods: Iterable[Pod], nodes: Collection[Node], claims: Collection[NodeClaim]) -> list[Pod]:
    """Return the pods that a drain makes move, unless something holds them."""
    leaving = find_retiring_nodes(nodes, claims)
    return [pod for pod in pods if pod.node_name in leaving and pod.moves] if leaving else []


def find_held_pods(
    leaving: Collection[Pod],
    nodes: Collection[Node],
    claims: Collection[NodeClaim],
    budgets: Iterable[PodDisruptionBudget],
    now: datetime,
) -> frozenset[str]:
    """Return the keys of the held pods among those of `find_leaving_pods`."""
    if not leaving:
        return frozenset()
    ending = list_ending_drains(nodes, claims, now)
    of_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
    for budget in budgets:
        of_namespace[budget.namespace].append(budget)
    return frozenset(
        pod.key
        for pod in leaving
        if pod.node_name not in ending and (_is_protected(pod, now) or _is_refused(pod, of_namespace[pod.namespace]))
    )


def _is_protected(pod: Pod, now: datetime) -> bool:
    until = protected_until(pod.protection, parse_timestamp(pod.started), now)
    return until is not None and until - now > SOON


def _is_refused(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> bool:
    """Return whether the eviction API refuses the pod until a budget is changed."""
    found = [budget for budget in budgets if budget.selects(pod)]
    return len(found) > 1 or any(budget.never_allows and not budget.exempts(pod) for budget in found)
