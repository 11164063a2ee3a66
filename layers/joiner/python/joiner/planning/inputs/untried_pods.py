"""Untried pods of a batch: pods that no scheduler has tried yet, whose siblings are unschedulable.

kube-scheduler writes the condition of one pod after another, by default 50 a second, so a Deployment of 1,000 pods is
tried after 20 seconds. A pod of the same controller with the same constraints and priority as an unschedulable pod
finds no node either: the scheduler tries pods of equal priority in the order of their creation. A plan considers the
free capacity of existing nodes in any case.
"""

from collections.abc import Iterable
from dataclasses import replace

from joiner.cluster.pods import Pod


def mark_untried_siblings(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods; untried pods with an unschedulable sibling have the message of that sibling.

    >>> tried, untried = Pod("default", "web-1", owner_uid="rs", unschedulable="0/1 nodes"), Pod("default", "web-2")
    >>> [pod.provisionable for pod in mark_untried_siblings([tried, replace(untried, owner_uid="rs")])]
    [True, True]
    >>> [pod.provisionable for pod in mark_untried_siblings([tried, untried])]
    [True, False]
    """
    listed = tuple(pods)
    messages = {_batch(pod): pod.unschedulable for pod in listed if pod.provisionable and pod.owner_uid}
    if not messages:
        return listed
    return tuple(
        replace(pod, unschedulable=messages[_batch(pod)]) if _is_untried(pod) and _batch(pod) in messages else pod
        for pod in listed
    )


def _is_untried(pod: Pod) -> bool:
    return pod.unschedulable is None and not pod.node_name and not pod.terminal


def _batch(pod: Pod) -> tuple[str, str, int]:
    return pod.owner_uid, pod.class_key, pod.priority
