"""Objects to a retirement whose drain would wait without end for a pod that no rollout replaces any more.

DISRUPT chose the node because the Deployment of the pod would replace it before it leaves. The Deployment may have been
paused or changed since. The drain then evicts the pod, and its PodDisruptionBudget refuses that. A budget that allows
no eviction now, but some when all its pods are healthy, is no objection: the drain waits for it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import NotFound
from joiner.cluster import InvalidField, Pod, PodDisruptionBudget
from joiner.lifecycle.emptiness import holds_node
from joiner.lifecycle.retirement import OF_A_DISRUPTION
from joiner.lifecycle.retirement_candidates import RetirementCandidate, read_pods
from joiner.lifecycle.rollout import RolloutStep, find_deployment, plan_rollout
from joiner.pools.timestamps import parse_timestamp


def find_blocked_rollout(
    kube: Kube, candidate: RetirementCandidate, manifests: Iterable[Mapping[str, Any]], now: datetime
) -> str:
    """Return which pod of the node can leave neither by a rollout nor by an eviction; empty if none.

    Pods of a claim with a terminationGracePeriod are deleted at its end, and keep no node.
    """
    claim = candidate.claim
    limited = claim is not None and claim.termination_grace_period is not None
    if limited or candidate.request.reason not in OF_A_DISRUPTION:
        return ""
    asking = [pod for pod in read_pods(manifests) if pod.leaves_by_rollout and holds_node(pod)]
    for pod in asking:
        if (budget := _find_refusing_budget(kube, pod)) and (why := _find_refusal(kube, pod, now)):
            return f"no rollout replaces pod {pod.key} ({why}), and {budget} never allows an eviction"
    return ""


def _find_refusing_budget(kube: Kube, pod: Pod) -> str:
    """Return the PodDisruptionBudget that refuses every eviction of the pod, or an empty text."""
    for manifest in kube.list(kinds.POD_DISRUPTION_BUDGETS, namespace=pod.namespace):
        try:
            budget = PodDisruptionBudget.from_kube(manifest)
        except InvalidField:  # the disruption controller cannot apply it either
            continue
        if budget.selects(pod) and _never_allows(manifest.get("status") or {}) and not budget.exempts(pod):
            return f"PodDisruptionBudget {budget.key}"
    return ""


def _never_allows(status: Mapping[str, Any]) -> bool:
    """Return whether a budget, by its status, allows no eviction even if all its pods are healthy, or cannot be
    computed."""
    failed = any(each.get("reason") == "SyncFailed" for each in status.get("conditions") or ())
    return failed or 0 < int(status.get("expectedPods") or 0) <= int(status.get("desiredHealthy") or 0)


def _find_refusal(kube: Kube, pod: Pod, now: datetime) -> str:
    """Return why no rollout replaces the pod, or an empty text."""
    try:
        deployment = _get_deployment(kube, pod)
    except NotFound:
        deployment = None
    if deployment is None:
        return "no Deployment controls it"
    planned = plan_rollout(deployment, parse_timestamp(pod.created), now)
    return planned.why if planned.step is RolloutStep.EVICT else ""


def _get_deployment(kube: Kube, pod: Pod) -> dict[str, Any] | None:
    if pod.owner_kind != "ReplicaSet":
        return None
    replica_set = kube.get(kinds.REPLICA_SETS, pod.owner_name, namespace=pod.namespace)
    name = find_deployment(replica_set)
    return kube.get(kinds.DEPLOYMENTS, name, namespace=pod.namespace) if name else None
