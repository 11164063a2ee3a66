"""The constraints of a pod: every field that decides where it may run, read once for all pods that have the same ones.

Replicas say the same: a thousand pods of twenty deployments have twenty constraints. ``essence`` takes a manifest down
to the bytes that matter, ``PodConstraints.read`` parses those bytes (once: it remembers), and their digest is the pod's
**class**.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from joiner.cluster.affinity import (
    EVERY_ADDRESS,
    HostPort,
    NodePreference,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodPreference,
    TopologySpreadConstraint,
)
from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.pod_requests import sum_pod_requests
from joiner.cluster.requirements import Requirements
from joiner.cluster.resources import Resources
from joiner.cluster.taints import Taint, Toleration, find_untolerated

Manifest = Mapping[str, Any]

CONTAINER_FIELDS: Final = ("name", "resources", "restartPolicy")
SPEC_FIELDS: Final = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "priority",
    "priorityClassName",
    "resources",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
IDENTITY_LABELS: Final = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "joiner.dev/placed",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Labels that tell replicas and revisions apart, and those that the pod gets with its binding (PodTopologyLabels, since
1.35: the node's, and ours). They do not make a class, unless the pod's own rules name them.
"""


def encode_constraints(manifest: Manifest) -> bytes:
    """The part of a pod manifest that decides where it may run, as bytes: equal for pods of one class."""
    spec: Manifest = manifest.get("spec") or {}
    metadata: Manifest = manifest.get("metadata") or {}
    namespace = metadata.get("namespace") or "default"
    kept = {name: spec[name] for name in SPEC_FIELDS if spec.get(name)}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [_container(container) for container in spec[kind]]
    if claims := volume_claims(manifest):
        kept["claims"] = claims
        kept["namespace"] = namespace
    if spec.get("resourceClaims"):
        kept["resourceClaims"] = len(spec["resourceClaims"])
    if resizing := _resizing(spec, manifest.get("status") or {}):
        kept["status"] = resizing
    if _constrained(spec):
        kept["namespace"] = namespace
        named = _label_keys(spec)
        labels = metadata.get("labels") or {}
        kept["labels"] = {key: value for key, value in labels.items() if key not in IDENTITY_LABELS or key in named}
    return msgspec.json.encode(kept, order="deterministic")


def _container(container: Manifest) -> dict[str, Any]:
    kept = {name: container[name] for name in CONTAINER_FIELDS if container.get(name)}
    ports = [
        {name: port[name] for name in ("hostPort", "containerPort", "protocol", "hostIP") if name in port}
        for port in container.get("ports") or ()
    ]
    return {**kept, "ports": ports} if ports else kept


def _resizing(spec: Manifest, status: Manifest) -> dict[str, Any]:
    """What containers have been given, where it is not what they ask for: kubelets tell it of every container that
    runs.
    """
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    asked = {each.get("name"): (each.get("resources") or {}).get("requests") for each in containers}
    names = ("containerStatuses", "initContainerStatuses")
    kept: dict[str, Any] = {
        kind: [
            {name: one[name] for name in ("name", "resources", "allocatedResources") if one.get(name)}
            for one in status[kind]
            if not _has_what_it_asks_for(one, asked.get(one.get("name")))
        ]
        for kind in names
        if status.get(kind)
    }
    pending = [one for one in status.get("conditions") or () if one.get("type") == "PodResizePending"]
    if pending:
        kept["conditions"] = [{"type": one.get("type"), "reason": one.get("reason")} for one in pending]
    return {kind: items for kind, items in kept.items() if items}


def _has_what_it_asks_for(container_status: Manifest, asked: Manifest | None) -> bool:
    given = ((container_status.get("resources") or {}).get("requests"), container_status.get("allocatedResources"))
    return all(each == asked for each in given if each is not None)


def _constrained(spec: Manifest) -> bool:
    affinity = spec.get("affinity") or {}
    return bool(spec.get("topologySpreadConstraints") or affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


def _label_keys(spec: Manifest) -> set[str]:
    """Every label key that the pod's own rules about pods name, wherever it stands in them."""
    found: set[str] = set()
    affinity = spec.get("affinity") or {}
    pending: list[Any] = [
        spec.get("topologySpreadConstraints"),
        affinity.get("podAffinity"),
        affinity.get("podAntiAffinity"),
    ]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            found |= (
                set(part.get("matchLabels") or ())
                | set(part.get("matchLabelKeys") or ())
                | set(part.get("mismatchLabelKeys") or ())
            )
            found |= {
                one["key"] for one in part.get("matchExpressions") or () if isinstance(one, Mapping) and "key" in one
            }
            pending.extend(part.values())
        elif isinstance(part, list | tuple):
            pending.extend(part)
    return found


def volume_claims(manifest: Manifest) -> list[str]:
    """Names of the PersistentVolumeClaims that the pod mounts, those of its ephemeral volumes included."""
    name = (manifest.get("metadata") or {}).get("name") or ""
    found = []
    for volume in (manifest.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(volume["persistentVolumeClaim"].get("claimName") or "")
        elif volume.get("ephemeral"):
            found.append(f"{name}-{volume.get('name')}")
    return sorted(found)


@dataclass(frozen=True, slots=True)
class PodConstraints:
    """Where a pod may run. ``terms`` are the alternatives of required node affinity: one of them must suit; None if
    nothing is required.

    ``shape_key`` is the class but for the names of its volume claims: replicas of a stateful set differ in those alone.
    """

    class_key: str = ""
    shape_key: str = ""
    requests: Resources = field(default_factory=Resources)
    selector: Requirements = field(default_factory=Requirements)
    terms: tuple[NodeSelectorTerm, ...] | None = None
    preferences: tuple[NodePreference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_preferences: tuple[PodPreference, ...] = ()
    spreads: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()
    resource_claims: int = 0
    priority: int = 0
    priority_class: str = ""
    scheduler: str = "default-scheduler"

    @classmethod
    def from_kube(cls, manifest: Manifest) -> "PodConstraints":
        """InvalidField for what cannot be read; the field's path begins at ``spec``."""
        try:
            return decode_constraints(encode_constraints(manifest))
        except InvalidField as invalid:
            raise invalid.within("spec") from invalid

    def tolerates(self, taint: Taint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    def untolerated(self, taints: tuple[Taint, ...]) -> Taint | None:
        """The first taint that keeps it away (PreferNoSchedule never does)."""
        return find_untolerated(self.tolerations, taints)

    def bears(self, taint: Taint, seconds: int) -> bool:
        """Is it let stay on a node with this taint for so long? Of the tolerations that match, the one that stands
        first decides for the controller that evicts; their order is not kept here, so all of them must allow it.
        """
        matching = [toleration for toleration in self.tolerations if toleration.tolerates(taint)]
        return bool(matching) and all(toleration.bears(taint, seconds) for toleration in matching)

    def suits(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether nodeSelector and required node affinity accept a node with these labels and this name."""
        return self.selector.allow(labels) and (
            self.terms is None or any(term.suits(labels, name) for term in self.terms)
        )

    @property
    def suits_no_node(self) -> bool:
        """Whether required node affinity says nothing in any of its terms: such a term matches no node, whatever its
        labels and name.
        """
        return self.terms is not None and all(term.empty for term in self.terms)

    def on_new_nodes(self) -> tuple[Requirements, ...]:
        """What it requires of a node yet to be made: alternatives, each the selector with one term; none if it asks for
        a name.
        """
        if self.terms is None:
            return (self.selector,)
        return tuple(self.selector & term.labels for term in self.terms if term.suits_new_nodes)


@lru_cache(maxsize=8192)  # pure: the same bytes always mean the same
def decode_constraints(kept: bytes) -> PodConstraints:
    """The meaning of an ``essence``."""
    spec = msgspec.json.decode(kept)
    namespace, labels = spec.get("namespace", "default"), spec.get("labels", {})
    affinity = spec.get("affinity") or {}
    node, beside, away = (affinity.get(kind) or {} for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    required = (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    class_key = hashlib.blake2b(kept, digest_size=10).hexdigest()
    return PodConstraints(
        class_key=class_key,
        shape_key=_shape_key(spec) if spec.get("claims") else class_key,
        requests=sum_pod_requests(spec, spec.get("status")),
        selector=Requirements.from_labels(spec.get("nodeSelector")),
        terms=None if required is None else tuple(NodeSelectorTerm.from_kube(term) for term in required),
        preferences=tuple(
            NodePreference(int(one.get("weight") or 1), NodeSelectorTerm.from_kube(one.get("preference") or {}))
            for one in _preferred(node)
        ),
        tolerations=tuple(sorted({Toleration.from_kube(one) for one in spec.get("tolerations") or ()}, key=repr)),
        affinity=tuple(PodAffinityTerm.from_kube(one, namespace=namespace, labels=labels) for one in _required(beside)),
        anti_affinity=tuple(
            PodAffinityTerm.from_kube(one, namespace=namespace, labels=labels) for one in _required(away)
        ),
        pod_preferences=tuple(
            PodPreference(
                int(one.get("weight") or 1),
                PodAffinityTerm.from_kube(one["podAffinityTerm"], namespace=namespace, labels=labels),
                apart,
            )
            for side, apart in ((beside, False), (away, True))
            for one in _preferred(side)
        ),
        spreads=tuple(
            TopologySpreadConstraint.from_kube(one, labels=labels)
            for one in spec.get("topologySpreadConstraints") or ()
        ),
        host_ports=_host_ports(spec),
        claims=tuple(spec.get("claims") or ()),
        resource_claims=spec.get("resourceClaims") or 0,
        priority=int(spec.get("priority") or 0),
        priority_class=spec.get("priorityClassName") or "",
        scheduler=spec.get("schedulerName") or "default-scheduler",
    )


def _shape_key(spec: Manifest) -> str:
    rest = {name: value for name, value in spec.items() if name != "claims"}
    return hashlib.blake2b(msgspec.json.encode(rest, order="deterministic"), digest_size=10).hexdigest()


def _required(side: Manifest) -> list[Manifest]:
    return list(side.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _preferred(side: Manifest) -> list[Manifest]:
    return list(side.get("preferredDuringSchedulingIgnoredDuringExecution") or ())


def _host_ports(spec: Manifest) -> tuple[HostPort, ...]:
    """A pod on the host's network takes every port that its containers name."""
    found = set()
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                found.add(HostPort(int(number), port.get("protocol") or "TCP", port.get("hostIP") or EVERY_ADDRESS))
    return tuple(sorted(found))
