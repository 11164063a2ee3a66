"""The world at one moment, as the API server told it: what a plan is made from, and from which it can be made again.

``lists`` is one list of manifests a kind, keyed by the kind's plural name (``LISTED``). A manifest that cannot be read becomes a
problem that names it; all others count.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from joiner.cluster import DaemonSet, InvalidField, Node, Pod, Volumes
from joiner.pools import InvalidManifest, NodeClaim, NodeClass, NodePool, read

Manifest = Mapping[str, Any]
Value = TypeVar("Value")

DECLARED: Final[Mapping[str, str]] = {
    "nodepools": "NodePool",
    "provisioners": "Provisioner",
    "nodeclaims": "NodeClaim",
    "machines": "Machine",
    "ec2nodeclasses": "EC2NodeClass",
    "awsnodetemplates": "AWSNodeTemplate",
}
LISTED: Final[Mapping[str, str]] = {
    **DECLARED,
    "pods": "Pod",
    "nodes": "Node",
    "daemonsets": "DaemonSet",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
    "namespaces": "Namespace",
    "priorityclasses": "PriorityClass",
}
"""Plural name of a list -> kind of its items."""

SYSTEM_PRIORITIES: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``assignments`` counts, for each claim on its way, the slots that no pod has taken yet, by pod class; ``entering`` names the
    claims whose launch is recorded but not answered yet (they are on their way, too)."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    pools: tuple[NodePool, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Volumes = field(default_factory=Volumes)
    assignments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    entering: frozenset[str] = frozenset()
    problems: tuple[InvalidManifest, ...] = ()

    @classmethod
    def from_lists(
        cls,
        lists: Mapping[str, Sequence[Manifest]],
        *,
        assignments: Mapping[str, Mapping[str, int]] | None = None,
        in_flight: Collection[str] = (),
    ) -> "Snapshot":
        """``in_flight`` are the names of claims with an open launch; launched claims are known by their own conditions."""
        problems: list[InvalidManifest] = []
        declared = read(_with_kind(one, kind) for plural, kind in DECLARED.items() for one in lists.get(plural) or ())
        problems.extend(declared.problems)
        return cls(
            pods=_read_all(Pod.from_kube, (_with_priority(one, lists) for one in lists.get("pods") or ()), "Pod", problems),
            nodes=_read_all(Node.from_kube, lists.get("nodes") or (), "Node", problems),
            daemon_sets=_read_all(DaemonSet.from_kube, lists.get("daemonsets") or (), "DaemonSet", problems),
            pools=declared.pools,
            classes=declared.classes,
            claims=declared.claims,
            namespaces={one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in lists.get("namespaces") or ()},
            volumes=Volumes.from_lists(
                lists.get("persistentvolumeclaims") or (), lists.get("persistentvolumes") or (), lists.get("storageclasses") or ()
            ),
            assignments=assignments or {},
            entering=frozenset(in_flight),
            problems=tuple(sorted(problems, key=lambda one: (one.object, one.field, one.value))),
        )

    @staticmethod
    def trim(lists: Mapping[str, Sequence[Manifest]]) -> dict[str, list[Manifest]]:
        """The same lists without what no plan reads: environments, commands, annotations of pods, managed fields."""
        return {plural: [_trimmed(one, plural) for one in items] for plural, items in lists.items() if plural in LISTED}

    def node_class(self, pool: NodePool) -> NodeClass | None:
        return next((one for one in self.classes if one.ref == pool.class_ref), None)


def _read_all(
    reader: Callable[[Manifest], Value], manifests: Iterable[Manifest], kind: str, problems: list[InvalidManifest]
) -> tuple[Value, ...]:
    found = []
    for manifest in manifests:
        try:
            found.append(reader(manifest))
        except InvalidField as invalid:
            metadata = manifest.get("metadata") or {}
            where = "/".join(filter(None, (kind, metadata.get("namespace"), metadata.get("name"))))
            problems.append(InvalidManifest(where, invalid.field, str(invalid.value), invalid.remedy))
    return tuple(found)


def _with_kind(manifest: Manifest, kind: str) -> Manifest:
    """Lists of built-in kinds leave out each item's kind."""
    return manifest if manifest.get("kind") else {**manifest, "kind": kind}


def _with_priority(pod: Manifest, lists: Mapping[str, Sequence[Manifest]]) -> Manifest:
    """Admission resolves priorityClassName into priority; a manifest that has not been through it is resolved here."""
    spec = pod.get("spec") or {}
    name = spec.get("priorityClassName")
    if not name or spec.get("priority") is not None:
        return pod
    known = {one["metadata"]["name"]: one.get("value", 0) for one in lists.get("priorityclasses") or ()}
    return {**pod, "spec": {**spec, "priority": {**SYSTEM_PRIORITIES, **known}.get(name, 0)}}


METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "deletionTimestamp",
    "creationTimestamp",
    "ownerReferences",
    "finalizers",
)
POD_SPEC: Final = (
    "affinity",
    "hostNetwork",
    "nodeName",
    "nodeSelector",
    "overhead",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "schedulerName",
    "schedulingGates",
    "tolerations",
    "topologySpreadConstraints",
)
POD_STATUS: Final = ("phase", "nominatedNodeName", "conditions")
CONTAINER: Final = ("name", "resources", "restartPolicy", "ports")


def _trimmed(manifest: Manifest, plural: str) -> Manifest:
    metadata = manifest.get("metadata") or {}
    kept = {"metadata": {name: metadata[name] for name in METADATA if metadata.get(name)}}
    match plural:
        case "pods":
            return {**kept, "spec": _pod_spec(manifest.get("spec") or {}), "status": _pod_status(manifest.get("status") or {})}
        case "daemonsets":
            template = (manifest.get("spec") or {}).get("template") or {}
            labels = (template.get("metadata") or {}).get("labels") or {}
            return {**kept, "spec": {"template": {"metadata": {"labels": labels}, "spec": _pod_spec(template.get("spec") or {})}}}
        case "nodes":
            status = manifest.get("status") or {}
            shown = {name: status[name] for name in ("capacity", "allocatable", "conditions") if name in status}
            annotations = metadata.get("annotations")
            own = {**kept["metadata"], **({"annotations": annotations} if annotations else {})}
            return {"metadata": own, "spec": manifest.get("spec") or {}, "status": shown}
        case _:
            return {**manifest, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _pod_spec(spec: Manifest) -> dict[str, Any]:
    kept: dict[str, Any] = {name: spec[name] for name in POD_SPEC if spec.get(name) is not None}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [{name: one[name] for name in CONTAINER if one.get(name) is not None} for one in spec[kind]]
    volumes = [one for one in spec.get("volumes") or () if one.get("persistentVolumeClaim") or one.get("ephemeral")]
    return {**kept, "volumes": volumes} if volumes else kept


def _pod_status(status: Manifest) -> dict[str, Any]:
    kept: dict[str, Any] = {name: status[name] for name in POD_STATUS if status.get(name)}
    for kind in ("containerStatuses", "initContainerStatuses"):
        given = [
            {name: one[name] for name in ("name", "resources", "allocatedResources") if one.get(name)}
            for one in status.get(kind) or ()
            if one.get("resources") or one.get("allocatedResources")
        ]
        if given:
            kept[kind] = given
    return kept
