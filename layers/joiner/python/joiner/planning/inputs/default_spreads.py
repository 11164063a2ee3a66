"""The scheduler's default topology spread constraints, for pods that have none of their own.

The cluster's administrator sets them (``defaultConstraints`` of the scheduler's PodTopologySpread plugin). EKS
keeps the built-in constraints of Kubernetes; these are only preferences and therefore not planned for unless
configured. The pods that a constraint counts are derived from the services that select the pod and from its
controller: the selector is a conjunction of theirs. A pod that none of them selects gets no constraint. Source:
Kubernetes, "Pod Topology Spread Constraints" (cluster-level defaults).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from joiner.cluster import LabelSelector, Pod, Requirements, TopologySpreadConstraint

Manifest = Mapping[str, Any]
Lists = Mapping[str, Sequence[Manifest]]

BUILT_IN: Final[tuple[Manifest, ...]] = (
    {"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
)
"""The built-in constraints of kube-scheduler."""

OWNERS: Final = {
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "ReplicationController": "replicationcontrollers",
}


class DefaultSpreads:
    """The constraints, and the pods that they count for each pod."""

    def __init__(self, constraints: Sequence[Manifest], lists: Lists) -> None:
        self._constraints = tuple(constraints)
        self._services: dict[str, list[Requirements]] = {}
        for service in lists.get("services") or ():
            selector = (service.get("spec") or {}).get("selector")
            if selector:
                self._services.setdefault(_namespace(service), []).append(_exactly(selector))
        self._owners = {
            (kind, _namespace(one), one["metadata"]["name"]): _of_owner(kind, one)
            for kind, plural in OWNERS.items()
            for one in lists.get(plural) or ()
        }
        for one in lists.get("deployments") or ():  # manifests of users: the controller has made no ReplicaSet yet
            made = ("ReplicaSet", _namespace(one), one["metadata"]["name"])
            self._owners.setdefault(made, _of_owner("ReplicaSet", one))
        self._known: dict[tuple[str, Requirements], tuple[TopologySpreadConstraint, ...]] = {}

    def given_to(self, pod: Pod) -> Pod:
        """Return the pod with the default constraints; unchanged if it has its own constraints, or if no service or
        controller selects it."""
        if not self._constraints or pod.constraints.spreads:
            return pod
        alike = self._alike(pod)
        if not alike:
            return pod
        known = (pod.constraints.shape_key, alike)
        if known not in self._known:
            selector = LabelSelector(alike)
            self._known[known] = tuple(
                replace(TopologySpreadConstraint.from_kube(one, labels={}), selector=selector, by_default=True)
                for one in self._constraints
            )
        digest = hashlib.blake2b(str(alike).encode(), digest_size=6).hexdigest()
        shape = f"{pod.constraints.shape_key}-{digest}"  # The class does not change: a slot is still for any pod of it.
        return replace(pod, constraints=replace(pod.constraints, spreads=self._known[known], shape_key=shape))

    def _alike(self, pod: Pod) -> Requirements:
        found = Requirements()
        for selector in self._services.get(pod.namespace, ()):
            if selector.allow(pod.labels):
                found &= selector
        return found & self._owners.get((pod.owner_kind, pod.namespace, pod.owner_name), Requirements())


def _exactly(labels: Mapping[str, str]) -> Requirements:
    return LabelSelector.from_kube({"matchLabels": labels}).requirements or Requirements()


def _of_owner(kind: str, one: Manifest) -> Requirements:
    selector = (one.get("spec") or {}).get("selector") or {}
    return (
        _exactly(selector)
        if kind == "ReplicationController"
        else LabelSelector.from_kube(selector).requirements or Requirements()
    )


def _namespace(one: Manifest) -> str:
    return str(one["metadata"].get("namespace") or "default")
