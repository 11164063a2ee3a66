"""Restart the Deployments of pods that ask to be drained by a rollout; `joiner.lifecycle.rollout` decides.

A pod whose Deployment cannot replace it first is evicted like any other pod, and an event on the pod gives the reason.
An API server that does not answer, or answers that it has too many requests, is asked again in the next pass.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube, Manifest
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound, TooManyRequests, Unreachable
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.lifecycle.draining import DrainingPod
from joiner.lifecycle.rollout import ROLLOUT_AWAITED, RolloutStep, find_deployment, plan_rollout, restart_patch
from joiner.names import BY_ROLLOUT
from joiner.reporting import retirement_events
from joiner.reporting.events import Event

MARK: Final = 8
"""Characters of a uid that tell the pods of a node apart. All claims of a wave are one state, limited to 256 KiB."""


@dataclass(slots=True)
class RolloutRound:
    """One pass over the pods of one node: those to evict now, those that are awaited and until when, and events.

    `restarted` are the pods whose Deployments were restarted in this pass, by the first characters of their uids.
    """

    evict: list[DrainingPod] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    next_at: datetime | None = None


class RolloutRestarts:
    """Restarts for the pods of one node, whose retirement began at `since`.

    `before` are the pods whose Deployments were restarted in earlier passes.
    """

    def __init__(
        self, kube: Kube, since: datetime, before: Collection[str] = (), time_left: TimeLeft = UNBOUNDED
    ) -> None:
        self._kube = kube
        self._since = since
        self._before = frozenset(before)
        self._time_left = time_left

    def replace(self, pods: Sequence[DrainingPod], now: datetime) -> RolloutRound:
        """Restart what can replace these pods first. Pods without the annotation are evicted."""
        found = RolloutRound()
        for pod in pods:
            if not pod.drained_by:
                found.evict.append(pod)
                continue
            if pod.drained_by != BY_ROLLOUT:
                self._evict(pod, f"its value is {pod.drained_by[:64]!r}; set {BY_ROLLOUT}", found)
                continue
            if self._time_left.over:
                found.awaited.append(f"pod {pod.key}: no time is left in this pass")
                continue
            try:
                self._replace(pod, now, found)
            except Conflict:
                found.awaited.append(f"pod {pod.key}: its Deployment has just changed")
            except (TooManyRequests, Unreachable) as reason:
                if now >= self._since + ROLLOUT_AWAITED:
                    self._evict(pod, f"its Deployment cannot be restarted: {reason}", found)
                else:
                    found.awaited.append(f"pod {pod.key}: its Deployment cannot be restarted now: {reason}")
            except NotFound:
                self._evict(pod, "its Deployment does not exist", found)
            except KubeError as reason:
                self._evict(pod, f"its Deployment cannot be restarted: {reason}", found)
        return found

    def _replace(self, pod: DrainingPod, now: datetime, found: RolloutRound) -> None:
        deployment = self._deployment(pod)
        if deployment is None:
            self._evict(pod, "no Deployment controls it", found)
            return
        name = deployment["metadata"]["name"]
        planned = plan_rollout(deployment, pod.created, now, tried=pod.uid[:MARK] in self._before)
        if planned.step is RolloutStep.EVICT:
            self._evict(pod, f"Deployment {name}: {planned.why}", found)
            return
        if planned.step is RolloutStep.RESTART:
            patch = restart_patch(now, deployment["metadata"]["resourceVersion"])
            self._kube.patch(kinds.DEPLOYMENTS, name, patch, namespace=pod.namespace)
            found.events.append(retirement_events.report_rollout(pod, name))
            found.restarted.append(pod.uid[:MARK])
        found.awaited.append(f"pod {pod.key} is replaced by a rollout of Deployment {name}")
        found.next_at = min(filter(None, (found.next_at, planned.until)), default=None)

    def _evict(self, pod: DrainingPod, why: str, found: RolloutRound) -> None:
        found.evict.append(pod)
        found.events.append(retirement_events.report_no_rollout(pod, why))

    def _deployment(self, pod: DrainingPod) -> Manifest | None:
        """Return the Deployment of the pod's ReplicaSet; None if it has none."""
        if pod.owner_kind != "ReplicaSet":
            return None
        replica_set = self._kube.get(kinds.REPLICA_SETS, pod.owner_name, namespace=pod.namespace)
        owner = find_deployment(replica_set)
        return self._kube.get(kinds.DEPLOYMENTS, owner, namespace=pod.namespace) if owner else None
