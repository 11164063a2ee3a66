"""Choose the pods whose events need not ring the doorbell, because an execution has listed the pods as pending.

kube-scheduler writes an event for each resource version of an unschedulable pod: the first attempt has the version of
its creation, the second the version after the scheduler's own condition. So each pod rings at least twice. A ring
reports that there are pods to list, which is known of a listed pod: the execution that listed it plans for it, or the
next sweep finds it. The API server compares the pod's uid, so pods that were not listed ring as always.
"""

from collections.abc import Collection
from typing import Final

from joiner.cluster import Pod

RECORDED_FROM: Final = 20
"""Listed pods that are not recorded yet from which a record is written. Fewer pods ring about 40 times, which costs
less than a write before their plan."""

RECORDED_AT_MOST: Final = 5_000
"""Recorded pods; the API server compares the uid of a pod with each of them. It is about 200 KB of one object. Later
events of the other pods ring."""


def choose_listed_pods(pending: Collection[Pod], recorded: Collection[str]) -> tuple[str, ...]:
    """Return the uids to record instead of the recorded ones, sorted; empty if the record stays as it is.

    The newest pods have precedence: the scheduler tries pods of equal priority by age, so their events come last.

    >>> pods = [Pod("default", f"web-{each}", uid=f"uid-{each}") for each in range(20)]
    >>> len(choose_listed_pods(pods, recorded=()))
    20
    >>> choose_listed_pods(pods, recorded={"uid-7"})
    ()
    """
    newest = sorted(pending, key=lambda pod: (pod.created, pod.uid), reverse=True)[:RECORDED_AT_MOST]
    chosen = {pod.uid for pod in newest if pod.uid}
    return tuple(sorted(chosen)) if len(chosen.difference(recorded)) >= RECORDED_FROM else ()
