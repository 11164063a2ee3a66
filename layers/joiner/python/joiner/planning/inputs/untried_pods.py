"""Untried pods of a batch: pods that no scheduler has tried yet, and that will find no node either.

kube-scheduler writes the condition of one pod after another, by default 50 a second, so a Deployment of 1,000 pods is
tried after 20 seconds, and the last of ten Deployments that are applied together begins seconds after the first. Two
kinds of untried pods are planned with the unschedulable ones:

* Siblings: a pod of the same controller with the same constraints and priority as an unschedulable pod. The scheduler
  tries pods of equal priority in the order of their creation, so it finds no node either.
* The rest of a burst: a pod that was created with or soon after an unschedulable pod that its scheduler tries first,
  if many such pods are untried. It may fit an existing node. A plan considers their free capacity before it adds a
  node, so the pod gets no new node then. A few untried pods are about to be bound, such as that of a CronJob.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from joiner.cluster.pods import Pod
from joiner.pools.timestamps import parse_timestamp

BURST: Final = timedelta(seconds=10)
"""How long after an unschedulable pod an untried one may be created: as long as a batch gathers at most by default
(Karpenter's BATCH_MAX_DURATION)."""

FEWEST_OF_BURST: Final = 10
"""So many untried pods, a fifth of a second's work of the scheduler by default, show that it has a queue."""


def mark_untried_pods(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods; an untried pod with an unschedulable sibling, or of a burst, has the message of the tried pod.

    >>> tried, untried = Pod("default", "web-1", owner_uid="rs", unschedulable="0/1 nodes"), Pod("default", "web-2")
    >>> [pod.provisionable for pod in mark_untried_pods([tried, replace(untried, owner_uid="rs")])]
    [True, True]
    >>> [pod.provisionable for pod in mark_untried_pods([tried, untried])]
    [True, False]
    >>> later = [Pod("default", f"db-{n}", created="2026-01-01T00:00:02Z") for n in range(10)]
    >>> burst = [replace(tried, created="2026-01-01T00:00:00Z"), *later]
    >>> sum(pod.provisionable for pod in mark_untried_pods(burst)), mark_untried_pods(burst[:-1]) == tuple(burst[:-1])
    (11, True)
    """
    listed = tuple(pods)
    tried = [pod for pod in listed if pod.provisionable]
    untried = [pod for pod in listed if _is_untried(pod)]
    if not tried or not untried:
        return listed
    siblings = {_batch(pod): pod.unschedulable for pod in tried if pod.owner_uid}
    bursts = _Bursts(tried)
    burst = {pod.key: message for pod in untried if (message := bursts.message_before(pod)) is not None}
    messages = burst if len(burst) >= FEWEST_OF_BURST else {}
    messages |= {pod.key: message for pod in untried if (message := siblings.get(_batch(pod))) is not None}
    return tuple(replace(pod, unschedulable=messages[pod.key]) if pod.key in messages else pod for pod in listed)


class _Bursts:
    """The unschedulable pods by scheduler and second of creation, of each second one with the highest priority: its
    scheduler tries it before all pods that come later and have no higher priority."""

    def __init__(self, tried: Iterable[Pod]) -> None:
        self._tried: dict[tuple[str, datetime], Pod] = {}
        for pod in sorted(tried, key=lambda pod: pod.priority):
            if created := parse_timestamp(pod.created):
                self._tried[pod.constraints.scheduler, created] = pod

    def message_before(self, untried: Pod) -> str | None:
        """Return the message of an unschedulable pod of the same burst that is tried before this one; None if there is
        none, or if this one is held up by something else."""
        created = parse_timestamp(untried.created)
        if created is None or untried.nominated_node or untried.gates or untried.stays_with_node:
            return None
        for seconds in range(int(BURST.total_seconds()) + 1):
            earlier = self._tried.get((untried.constraints.scheduler, created - timedelta(seconds=seconds)))
            if earlier is not None and earlier.priority >= untried.priority:
                return earlier.unschedulable
        return None


def _is_untried(pod: Pod) -> bool:
    return pod.unschedulable is None and not pod.node_name and not pod.terminal


def _batch(pod: Pod) -> tuple[str, str, int]:
    return pod.owner_uid, pod.class_key, pod.priority
