"""Nodes and daemon sets: where pods may run, and which pods run on every node."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from joiner import names
from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.pod_constraints import PodConstraints
from joiner.cluster.resources import Resources
from joiner.cluster.taints import Taint, Toleration

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """One condition of a node's status. ``since`` is the time of its last transition (RFC 3339), or empty."""

    type: str
    status: str
    since: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One node that has joined. ``ready`` is its Ready condition; ``provider_id`` identifies its instance."""

    name: str
    _: KW_ONLY
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Resources = field(default_factory=Resources)
    allocatable: Resources = field(default_factory=Resources)
    provider_id: str = ""
    ready: bool = False
    unschedulable: bool = False
    deletion: str = ""
    created: str = ""
    uid: str = ""
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    owners: tuple[Manifest, ...] = ()
    """Its owner references, as the API server returns them."""

    @classmethod
    def from_kube(cls, manifest: Manifest) -> "Node":
        """Read a node. InvalidField for an invalid quantity or taint."""
        metadata: Manifest = manifest.get("metadata") or {}
        spec: Manifest = manifest.get("spec") or {}
        status: Manifest = manifest.get("status") or {}
        capacity = _resources(status, "capacity")
        conditions = tuple(map(_condition, status.get("conditions") or ()))
        return cls(
            name=metadata.get("name") or "",
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            taints=tuple(_taint(taint, position) for position, taint in enumerate(spec.get("taints") or ())),
            capacity=capacity,
            allocatable=_resources(status, "allocatable") or capacity,  # the default of the kubelet
            provider_id=spec.get("providerID") or "",
            ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
            unschedulable=bool(spec.get("unschedulable")),
            deletion=metadata.get("deletionTimestamp") or "",
            created=metadata.get("creationTimestamp") or "",
            uid=metadata.get("uid") or "",
            resource_version=metadata.get("resourceVersion") or "",
            finalizers=tuple(metadata.get("finalizers") or ()),
            conditions=conditions,
            owners=tuple(metadata.get("ownerReferences") or ()),
        )

    @property
    def instance_id(self) -> str:
        """Return the last part of ``aws:///<zone>/<instance id>``."""
        return self.provider_id.rpartition("/")[2]

    @property
    def zone(self) -> str:
        """Return the zone of its label; empty without one."""
        return self.labels.get(names.ZONE, "")

    @property
    def retiring(self) -> bool:
        """Return whether the node is being deleted or was chosen for disruption."""
        return bool(self.deletion) or self.has_taint(names.DISRUPTED)

    def has_taint(self, key: str) -> bool:
        """Return whether the node has a taint with this key, whatever its effect."""
        return any(taint.key == key for taint in self.taints)


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """One pod for each node.

    ``constraints`` are those of the template, with the tolerations that the daemon set controller adds. A new
    ``generation`` that changes nothing else concerns no plan: it makes no difference between two daemon sets.
    """

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    constraints: PodConstraints = field(default_factory=PodConstraints)
    generation: int = field(default=0, compare=False)

    @classmethod
    def from_kube(cls, manifest: Manifest) -> "DaemonSet":
        """Read a daemon set from its pod template. InvalidField if a field that decides where its pods run is not
        valid."""
        metadata: Manifest = manifest.get("metadata") or {}
        template: Manifest = (manifest.get("spec") or {}).get("template") or {}
        namespace = metadata.get("namespace") or "default"
        labels = (template.get("metadata") or {}).get("labels") or {}
        pod = {"metadata": {"name": "", "namespace": namespace, "labels": labels}, "spec": template.get("spec") or {}}
        try:
            constraints = PodConstraints.from_kube(pod)
        except InvalidField as invalid:
            raise invalid.within("spec.template") from invalid
        host_network = bool((template.get("spec") or {}).get("hostNetwork"))
        tolerations = (*constraints.tolerations, *ADDED, *(NETWORK if host_network else ()))
        return cls(
            namespace,
            metadata.get("name") or "",
            metadata.get("uid") or "",
            labels,
            replace(constraints, tolerations=tolerations),
            int(metadata.get("generation") or 0),
        )

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def requests(self) -> Resources:
        """Return the requests of one of its pods."""
        return self.constraints.requests

    def runs_on(self, labels: Mapping[str, str], taints: tuple[Taint, ...], name: str = "") -> bool:
        """Return whether the controller creates a pod on a node with these labels and taints."""
        return self.constraints.untolerated(taints) is None and self.constraints.suits(labels, name)


ADDED = (
    Toleration("node.kubernetes.io/not-ready", "Exists", effect="NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", effect="NoExecute"),
    Toleration("node.kubernetes.io/disk-pressure", "Exists", effect="NoSchedule"),
    Toleration("node.kubernetes.io/memory-pressure", "Exists", effect="NoSchedule"),
    Toleration("node.kubernetes.io/pid-pressure", "Exists", effect="NoSchedule"),
    Toleration("node.kubernetes.io/unschedulable", "Exists", effect="NoSchedule"),
)
"""Tolerations that the daemon set controller adds to every pod (Kubernetes, "DaemonSet", taints and tolerations)."""

NETWORK = (Toleration("node.kubernetes.io/network-unavailable", "Exists", effect="NoSchedule"),)


def _resources(status: Manifest, name: str) -> Resources:
    try:
        return Resources.from_kube(status.get(name))
    except InvalidField as invalid:
        raise invalid.within(f"status.{name}") from invalid


def _condition(raw: Manifest) -> NodeCondition:
    since, message = raw.get("lastTransitionTime") or "", raw.get("message") or ""
    return NodeCondition(raw.get("type") or "", raw.get("status") or "", since, message)


def _taint(raw: Manifest, position: int) -> Taint:
    try:
        return Taint.from_kube(raw)
    except InvalidField as invalid:
        raise invalid.within(f"spec.taints[{position}]") from invalid
