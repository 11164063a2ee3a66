"""Restart the Deployments of pods that ask to be drained by a rollout; `joiner.lifecycle.rollout` decides.

A pod whose Deployment cannot replace it first is evicted like any other pod, and an event on the pod gives the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube, Manifest
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.kube_kinds import Kind
from joiner.lifecycle.draining import BY_ROLLOUT, DrainingPod
from joiner.lifecycle.rollout import RolloutStep, plan_rollout, restart_patch
from joiner.reporting import retirement_events
from joiner.reporting.events import Event


@dataclass(slots=True)
class RolloutRound:
    """One pass over the pods of one node: those to evict now, those that are awaited and until when, and events."""

    evict: list[DrainingPod] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    restarted: int = 0
    next_at: datetime | None = None


class RolloutRestarts:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

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
            try:
                self._replace(pod, now, found)
            except Conflict:
                found.awaited.append(f"pod {pod.key}: its Deployment has just changed")
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
        planned = plan_rollout(deployment, pod.created, now)
        if planned.step is RolloutStep.EVICT:
            self._evict(pod, f"Deployment {name}: {planned.why}", found)
            return
        if planned.step is RolloutStep.RESTART:
            patch = restart_patch(now, deployment["metadata"]["resourceVersion"])
            self._kube.patch(kinds.DEPLOYMENTS, name, patch, namespace=pod.namespace)
            found.events.append(retirement_events.report_rollout(pod, name))
            found.restarted += 1
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
        owner = _controller(replica_set, kinds.DEPLOYMENTS)
        return self._kube.get(kinds.DEPLOYMENTS, owner, namespace=pod.namespace) if owner else None


def _controller(manifest: Manifest, kind: Kind) -> str:
    owners: list[dict[str, Any]] = manifest["metadata"].get("ownerReferences") or []
    return next((str(one["name"]) for one in owners if one.get("controller") and one.get("kind") == kind.kind), "")
