"""The history of a cluster, written down change by change as the API server would show it."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object
from tests.e2e.cluster_history import Change, ClusterHistory, Removal
from tests.e2e.disruption_rules import DisruptionJudge, Strike

NOON: Final = datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp()
JOINER: Final = "arn:aws:sts::000000000000:assumed-role/evict-pods/evict-pods"
USER: Final = "kubernetes-admin"
COLLECTOR: Final = "system:serviceaccount:kube-system:pod-garbage-collector"
TAINT: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
READY: Final = {"type": "Ready", "status": "True"}


def timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def manifest(name: str, *, age: float = 3600, **metadata: Any) -> Object:
    return {"metadata": {"name": name, "creationTimestamp": timestamp(NOON - age), **metadata}, "spec": {}}


@dataclass
class Cluster:
    """A cluster at noon, with nodes of one pool, and what happens in it. Times are seconds after noon."""

    nodes: Iterable[str] = ("a", "b")
    budgets: list[Mapping[str, Any]] = field(default_factory=lambda: [{"nodes": "1"}])
    pool: Mapping[str, Any] = field(default_factory=dict)
    """More of the pool's spec."""
    pool_annotations: Mapping[str, str] = field(default_factory=dict)
    claim: Mapping[str, Any] = field(default_factory=dict)
    """The spec of each claim."""
    legacy: bool = False
    changes: list[Change] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=dict)
    strikes: dict[str, Strike] = field(default_factory=dict)
    now: dict[tuple[str, str], Object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pool = manifest("p", annotations=dict(self.pool_annotations))
        budgets = {} if self.legacy else {"template": {}, "disruption": {"budgets": self.budgets}}
        self.now["provisioner" if self.legacy else "pool", "p"] = {**pool, "spec": {**budgets, **self.pool}}
        for name in self.nodes:
            self.now["node", name], self.now["claim", f"claim-{name}"] = self._node(name), self._claim(name)
        self.start = copy.deepcopy(self.now)

    def _node(self, name: str) -> Object:
        label = "karpenter.sh/provisioner-name" if self.legacy else "karpenter.sh/nodepool"
        node = manifest(name, labels={label: "p", "karpenter.sh/initialized": "true"}, annotations={})
        return {**node, "spec": {"providerID": f"aws:///z/i-{name}"}, "status": {"conditions": [READY]}}

    def _claim(self, name: str) -> Object:
        claim = manifest(f"claim-{name}", annotations={})
        return {**claim, "spec": dict(self.claim), "status": {"providerID": f"aws:///z/i-{name}", "nodeName": name}}

    def pod(self, name: str, on: str, *, protection: str = "", started: float = -600, **spec: Any) -> None:
        """Bind a pod to a node."""
        made = manifest(name, age=600, namespace="default", labels={"app": name.partition("-")[0]})
        made["metadata"]["annotations"] = {DO_NOT_DISRUPT: protection} if protection else {}
        made["spec"] = {"nodeName": on, "terminationGracePeriodSeconds": 0, **spec}
        made["status"] = {"phase": "Running", "startTime": timestamp(NOON + started), "conditions": [READY]}
        self._change(-300, "pod", f"default/{name}", made)

    def disruption_budget(self, app: str, healthy: int, *, allowed: int = 1, at: float = -300) -> None:
        """Write a PodDisruptionBudget whose status allows so many evictions since a time."""
        made = manifest(app, namespace="default")
        made["spec"] = {"selector": {"matchLabels": {"app": app}}}
        status = {"desiredHealthy": healthy, "disruptionsAllowed": allowed}
        self._change(at, "budget", f"default/{app}", {**made, "status": status})

    def _change(self, at: float, kind: str, key: str, found: Object | None) -> None:
        self.changes.append(Change(len(self.changes), NOON + at, kind, key, copy.deepcopy(found)))
        if found is None:
            del self.now[kind, key]
        else:
            self.now[kind, key] = found

    def change_metadata(self, at: float, kind: str, key: str, **metadata: Any) -> None:
        found = self.now[kind, key]
        self._change(at, kind, key, {**found, "metadata": {**found["metadata"], **metadata}})

    def protect(self, at: float, kind: str, key: str) -> None:
        self.change_metadata(at, kind, key, annotations={DO_NOT_DISRUPT: "true"})

    def finish(self, at: float, pod: str) -> None:
        """Let a pod succeed."""
        found = self.now["pod", f"default/{pod}"]
        self._change(at, "pod", f"default/{pod}", {**found, "status": {**found["status"], "phase": "Succeeded"}})

    def taint(self, at: float, *nodes: str) -> None:
        for name in nodes:
            node = self.now["node", name]
            self._change(at, "node", name, {**node, "spec": {**node["spec"], "taints": [TAINT]}})

    def untaint(self, at: float, name: str) -> None:
        node = self.now["node", name]
        self._change(at, "node", name, {**node, "spec": {**node["spec"], "taints": []}})

    def condition(self, at: float, kind: str, key: str, *conditions: Mapping[str, str]) -> None:
        found = self.now[kind, key]
        self._change(at, kind, key, {**found, "status": {**found["status"], "conditions": [*conditions]}})

    def state(self, at: float, name: str, reason: str) -> None:
        """Let the claim of a node state the reason of its disruption."""
        self.condition(at, "claim", f"claim-{name}", {"type": "DisruptionReason", "status": "True", "reason": reason})

    def evict(self, at: float, pod: str, *, by: str = JOINER) -> None:
        self._removed(at, "evict", "pod", f"default/{pod}", by)
        self._change(at, "pod", f"default/{pod}", None)

    def delete(self, at: float, pod: str, *, by: str = JOINER) -> None:
        self._removed(at, "delete", "pod", f"default/{pod}", by)
        self._change(at, "pod", f"default/{pod}", None)

    def delete_claim(self, at: float, name: str, *, by: str = JOINER) -> None:
        self._removed(at, "delete", "claim", f"claim-{name}", by)
        self.change_metadata(at, "claim", f"claim-{name}", deletionTimestamp=timestamp(NOON + at))

    def remove_node(self, at: float, name: str, *, by: str = JOINER) -> None:
        """Delete a node; its pods follow."""
        self._removed(at, "delete", "node", name, by)
        self._change(at, "node", name, None)
        for kind, key in list(self.now):
            if kind == "pod" and self.now[kind, key]["spec"]["nodeName"] == name:
                self.delete(at + 1, key.removeprefix("default/"), by=COLLECTOR)

    def _removed(self, at: float, verb: str, kind: str, key: str, by: str) -> None:
        self.removals.append(Removal(NOON + at, verb, kind, key, by, ours=by == JOINER))

    def end_instance(self, at: float, name: str) -> None:
        self.ended[f"i-{name}"] = NOON + at

    def strike(self, at: float, name: str, how: str) -> None:
        self.strikes[f"i-{name}"] = Strike(NOON + at, how)

    @property
    def violations(self) -> list[str]:
        return DisruptionJudge(
            ClusterHistory(self.start, self.changes, self.removals, self.ended), self.strikes
        ).judge()
