"""The constraints of a pod: every field that decides where it may run. Pods with equal constraints share one value.

Replicas have the same constraints: a thousand pods of twenty deployments have twenty constraints.
``encode_constraints`` reduces a manifest to the relevant bytes. ``decode_constraints`` parses them, with a cache. The
digest of the bytes is the **class** of the pod.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from joiner import names
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
    "os",
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
        names.POD_TEMPLATE_HASH,
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
"""Labels that differ between replicas and revisions, and labels that the pod gets with its binding (PodTopologyLabels,
since 1.35: those of the node, and Joiner's). They do not make a class, unless the pod's own rules name them.
"""

NO_REQUIREMENTS: Final = Requirements()
ON_WINDOWS: Final = Requirements.from_labels({names.OS: "windows"})
NOT_ON_WINDOWS: Final = Requirements({names.OS: ~ON_WINDOWS[names.OS]})


def encode_constraints(manifest: Manifest) -> bytes:
    """Return the part of a pod manifest that decides where it may run, as bytes. Pods of one class have equal bytes."""
    spec: Manifest = manifest.get("spec") or {}
    metadata: Manifest = manifest.get("metadata") or {}
    namespace = metadata.get("namespace") or "default"
    kept = {name: spec[name] for name in SPEC_FIELDS if spec.get(name)}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [_container(container) for container in spec[kind]]
    if claims := list_volume_claims(manifest):
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
    """Return the allocated resources of containers and of the pod as a whole, where they differ from the requests.

    Kubelets report them for every running container, and for every pod with pod-level resources.
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
    if spec.get("resources") and not _has_what_it_asks_for(status, spec["resources"].get("requests")):
        kept |= {name: status[name] for name in ("resources", "allocatedResources") if status.get(name)}
    pending = [one for one in status.get("conditions") or () if one.get("type") == "PodResizePending"]
    if pending:
        kept["conditions"] = [{"type": one.get("type"), "reason": one.get("reason")} for one in pending]
    return {kind: items for kind, items in kept.items() if items}


def _has_what_it_asks_for(status: Manifest, asked: Manifest | None) -> bool:
    given = ((status.get("resources") or {}).get("requests"), status.get("allocatedResources"))
    return all(each == asked for each in given if each is not None)


def _constrained(spec: Manifest) -> bool:
    affinity = spec.get("affinity") or {}
    return bool(spec.get("topologySpreadConstraints") or affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


def _label_keys(spec: Manifest) -> set[str]:
    """Return every label key that the pod's own rules about pods name."""
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


def list_volume_claims(manifest: Manifest) -> list[str]:
    """Return the names of the PersistentVolumeClaims that the pod mounts, with those of its ephemeral volumes."""
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
    """The constraints of a pod.

    A node must meet one of ``terms``, the alternatives of required node affinity; None if there is no such affinity.
    ``shape_key`` is the class without the names of its volume claims: replicas of a stateful set differ only in those.
    """

    _: KW_ONLY
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
    volume_claims: tuple[str, ...] = ()
    resource_claims: int = 0
    priority: int = 0
    priority_class: str = ""
    scheduler: str = "default-scheduler"
    system: str = ""
    """The operating system that the pod declares (``spec.os.name``). Schedulers do not heed it, and the kubelet of
    another system refuses the pod."""

    @classmethod
    def from_kube(cls, manifest: Manifest) -> "PodConstraints":
        """Read a pod manifest. InvalidField for an invalid field; its path begins at ``spec``."""
        try:
            return decode_constraints(encode_constraints(manifest))
        except InvalidField as invalid:
            raise invalid.within("spec") from invalid

    def tolerates(self, taint: Taint) -> bool:
        """Return whether one of the tolerations tolerates the taint."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    def untolerated(self, taints: tuple[Taint, ...]) -> Taint | None:
        """Return the first taint that the pod does not tolerate, or None (PreferNoSchedule never counts)."""
        return find_untolerated(self.tolerations, taints)

    def tolerates_for(self, taint: Taint, seconds: int) -> bool:
        """Return whether the pod may stay on a node with this taint for ``seconds``.

        The controller that evicts uses the first toleration that matches. Their order is not kept here, so all of them
        must allow it.
        """
        matching = [toleration for toleration in self.tolerations if toleration.tolerates(taint)]
        return bool(matching) and all(toleration.tolerates_for(taint, seconds) for toleration in matching)

    def suits(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether the pod may run on a node with these labels and this name: whether nodeSelector, required node
        affinity and the declared operating system accept it."""
        return self.selects(labels, name) and self.nodes_of_system.allow(labels)

    def selects(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether nodeSelector and required node affinity accept a node with these labels and this name.

        With ``nodeAffinityPolicy: Honor``, kube-scheduler counts such nodes for the pod's topology spread constraints,
        whatever operating system they have.
        """
        return self.selector.allow(labels) and (
            self.terms is None or any(term.suits(labels, name) for term in self.terms)
        )

    @property
    def nodes_of_system(self) -> Requirements:
        """Return the requirement of the declared operating system on nodes. Nodes without the label run Linux.

        >>> print(PodConstraints(system="windows").nodes_of_system, PodConstraints(system="linux").nodes_of_system)
        kubernetes.io/os In [windows] kubernetes.io/os NotIn [windows]
        """
        if not self.system:
            return NO_REQUIREMENTS
        return ON_WINDOWS if self.system == "windows" else NOT_ON_WINDOWS

    @property
    def suits_no_node(self) -> bool:
        """Return whether all terms of required node affinity are empty: such a term matches no node."""
        return self.terms is not None and all(term.empty for term in self.terms)

    def on_new_nodes(self) -> tuple[Requirements, ...]:
        """Return the requirements on a new node: alternatives, each the selector with one term and the declared
        operating system.

        Terms that require a node name are omitted.
        """
        return tuple(one & self.nodes_of_system for one in self.selected_new_nodes())

    def selected_new_nodes(self) -> tuple[Requirements, ...]:
        """Return ``on_new_nodes`` without the declared operating system, as in ``selects``."""
        if self.terms is None:
            return (self.selector,)
        return tuple(self.selector & term.labels for term in self.terms if term.suits_new_nodes)


@lru_cache(maxsize=8192)  # pure: equal bytes have equal constraints
def decode_constraints(kept: bytes) -> PodConstraints:
    """Return the constraints for the result of ``encode_constraints``."""
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
        preferences=_node_preferences(node),
        tolerations=tuple(sorted({Toleration.from_kube(one) for one in spec.get("tolerations") or ()}, key=repr)),
        affinity=tuple(PodAffinityTerm.from_kube(one, namespace=namespace, labels=labels) for one in _required(beside)),
        anti_affinity=tuple(
            PodAffinityTerm.from_kube(one, namespace=namespace, labels=labels) for one in _required(away)
        ),
        pod_preferences=_pod_preferences(beside, away, namespace, labels),
        spreads=tuple(
            TopologySpreadConstraint.from_kube(one, labels=labels)
            for one in spec.get("topologySpreadConstraints") or ()
        ),
        host_ports=_host_ports(spec),
        volume_claims=tuple(spec.get("claims") or ()),
        resource_claims=spec.get("resourceClaims") or 0,
        priority=int(spec.get("priority") or 0),
        priority_class=spec.get("priorityClassName") or "",
        scheduler=spec.get("schedulerName") or "default-scheduler",
        system=(spec.get("os") or {}).get("name") or "",
    )


def _shape_key(spec: Manifest) -> str:
    rest = {name: value for name, value in spec.items() if name != "claims"}
    return hashlib.blake2b(msgspec.json.encode(rest, order="deterministic"), digest_size=10).hexdigest()


def _required(side: Manifest) -> list[Manifest]:
    return list(side.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _preferred(side: Manifest) -> list[Manifest]:
    return list(side.get("preferredDuringSchedulingIgnoredDuringExecution") or ())


def _node_preferences(node: Manifest) -> tuple[NodePreference, ...]:
    return tuple(
        NodePreference(int(one.get("weight") or 1), NodeSelectorTerm.from_kube(one.get("preference") or {}))
        for one in _preferred(node)
    )


def _pod_preferences(
    beside: Manifest, away: Manifest, namespace: str, labels: Mapping[str, str]
) -> tuple[PodPreference, ...]:
    return tuple(
        PodPreference(
            int(one.get("weight") or 1),
            PodAffinityTerm.from_kube(one["podAffinityTerm"], namespace=namespace, labels=labels),
            apart,
        )
        for side, apart in ((beside, False), (away, True))
        for one in _preferred(side)
    )


def _host_ports(spec: Manifest) -> tuple[HostPort, ...]:
    """Return the host ports. A pod on the host's network uses every port that its containers name."""
    found = set()
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                found.add(HostPort(int(number), port.get("protocol") or "TCP", port.get("hostIP") or EVERY_ADDRESS))
    return tuple(sorted(found))
