"""Reads which pods a rollout of their Deployment replaces before they leave their node.

Their PodDisruptionBudgets do not keep the node then (`joiner.disruption.budgets_of_pods`). The drain decides again by
the same rules; a pod that it evicts after all waits for its budget. Whether another controller
undoes the restart of a Deployment is not known before.
"""

from datetime import datetime

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.cluster_view import ClusterView
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.parallel_calls import call_each
from joiner.cluster import Pod
from joiner.disruption.budgets_of_pods import BudgetsOfPods, find_pods_of_rollouts
from joiner.lifecycle.rollout import RolloutStep, find_deployment, plan_rollout
from joiner.planning import Snapshot
from joiner.pools.timestamps import parse_timestamp


def find_rollouts(view: ClusterView, world: Snapshot, now: datetime) -> frozenset[str]:
    """Return the keys of the pods that a rollout replaces, among those on nodes that a PodDisruptionBudget selects.

    A pod whose ReplicaSet or Deployment cannot be read is not among them.
    """
    asking = find_pods_of_rollouts(world.pods)
    if not asking:
        return frozenset()
    budgets = BudgetsOfPods(world.disruption_budgets)
    pods = [pod for pod in world.pods if pod.key in asking and pod.node_name and budgets.of(pod, has_deadline=False)]
    answers = call_each(pods, lambda pod: _is_replaced(view, pod, now), KubeError)
    return frozenset(pod.key for pod, answer in answers if answer is True)


def _is_replaced(view: ClusterView, pod: Pod, now: datetime) -> bool:
    replica_set = view.controller(kinds.REPLICA_SETS.kind, pod.namespace, pod.owner_name)
    name = find_deployment(replica_set) if replica_set is not None else ""
    deployment = view.controller(kinds.DEPLOYMENTS.kind, pod.namespace, name) if name else None
    if deployment is None:
        return False
    return plan_rollout(deployment, parse_timestamp(pod.created), now).step is not RolloutStep.EVICT
