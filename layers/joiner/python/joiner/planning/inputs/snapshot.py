"""The state of the cluster at one moment, as the API server returned it. A plan is made from it, and can be made from
it again.

``lists`` has one list of manifests for each kind, keyed by the kind's plural name (``LISTED``). A manifest that
cannot be read becomes a problem that names it; all other manifests are used.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeVar

from joiner.cluster import DaemonSet, InvalidField, Node, Pod, PodDisruptionBudget, Volumes
from joiner.cluster.list_pages import Packed
from joiner.planning.inputs.admission import Admission, claims_of_ephemeral_volumes
from joiner.planning.inputs.capacity_buffers import capacity_buffer_pods
from joiner.planning.inputs.default_spreads import DefaultSpreads
from joiner.planning.inputs.redaction import redact
from joiner.planning.inputs.untried_pods import mark_untried_pods
from joiner.pools import (
    InvalidManifest,
    NodeClaim,
    NodeClass,
    NodePool,
    Overlays,
    ResolvedNodeClass,
    complete_classes,
    read_manifests,
    read_overlays,
)
from joiner.pools.node_class import IpFamily

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
HELD: Final = "heldpods"
"""Names of pods that are held (`joiner.pools.held_pods`). The API server has no such list."""
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
    "runtimeclasses": "RuntimeClass",
    "csinodes": "CSINode",
    "nodeoverlays": "NodeOverlay",
    "capacitybuffers": "CapacityBuffer",
    "podtemplates": "PodTemplate",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "replicasets": "ReplicaSet",
    "replicationcontrollers": "ReplicationController",
    "services": "Service",
    "poddisruptionbudgets": "PodDisruptionBudget",
}
"""Plural name of a list -> kind of its items. A list that is not given is empty; workloads matter only to capacity
buffers and default spreads, PodDisruptionBudgets only to disruption."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``assignments`` counts, for each in-flight claim, the slots that no pod has taken yet, by pod class. If it is
    known which pods take them, ``slots`` has the keys of these pods by the key of the claim (by the name of a node
    without one), and no class counts.
    ``entering`` names the claims whose launch is recorded and is not on them yet; they are in flight, too.
    ``unwritten`` are those of them whose outcome could not be written: nobody knows when their nodes register, so they
    have no room but for the pods that wait for them.
    ``closed_pools`` are pools that a plan may not use, by key, each with the reason: in plans without a cluster, where
    no node class decides, and held static pools. ``held_pools`` are pools that launch no node for a pod class, by the
    class and then the pool's key, each with the reason (``joiner.planning.inputs.held_pools``). ``rollouts`` are the
    keys of pods that a PodDisruptionBudget selects, and that a rollout of their Deployment replaces before they leave
    their node."""

    _: KW_ONLY
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    pools: tuple[NodePool, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Volumes = field(default_factory=Volumes)
    overlays: Overlays = field(default_factory=Overlays)
    assignments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    slots: Mapping[str, Collection[str]] | None = None
    entering: frozenset[str] = frozenset()
    unwritten: frozenset[str] = frozenset()
    disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    problems: tuple[InvalidManifest, ...] = ()
    closed_pools: Mapping[str, str] = field(default_factory=dict)
    held_pools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rollouts: frozenset[str] = frozenset()

    @classmethod
    def from_lists(
        cls,
        lists: Mapping[str, Sequence[Manifest]],
        *,
        assignments: Mapping[str, Mapping[str, int]] | None = None,
        in_flight: Collection[str] = (),
        default_spreads: Sequence[Manifest] = (),
        ip_family: IpFamily = "ipv4",
        rollouts: Collection[str] = (),
    ) -> "Snapshot":
        """Parse the lists. ``in_flight`` is the field ``entering``; launched claims are identified by their conditions.

        ``default_spreads`` are the scheduler's default constraints, for pods that have none
        (``joiner.planning.inputs.default_spreads``). ``ip_family`` is that of the cluster,
        ``rollouts`` the field of the same name.
        """
        problems: list[InvalidManifest] = []
        declared = read_manifests(
            _with_kind(one, kind) for plural, kind in DECLARED.items() for one in lists.get(plural) or ()
        )
        overlays, refused = read_overlays(lists.get("nodeoverlays") or ())
        buffer_pods, buffers = capacity_buffer_pods(lists)
        problems.extend((*declared.problems, *refused, *buffers))
        admission, defaults = Admission(lists), DefaultSpreads(default_spreads, lists)
        ephemeral: list[Manifest] = []
        admitted = map(admission.admit, chain(lists.get("pods") or (), buffer_pods))
        listed = _with_ephemeral_volumes(admitted, ephemeral)
        pods = mark_untried_pods(_read_all(Pod.from_kube, listed, "Pod", problems))
        sets = (_admitted(one, admission) for one in lists.get("daemonsets") or ())
        daemons = _read_all(DaemonSet.from_kube, sets, "DaemonSet", problems)
        return cls(
            pods=tuple(map(defaults.given_to, pods)) if default_spreads else pods,
            nodes=_read_all(Node.from_kube, lists.get("nodes") or (), "Node", problems),
            daemon_sets=_as_they_run(daemons, pods),
            pools=declared.pools,
            classes=tuple(replace(one, ip_family=ip_family) for one in declared.classes),
            claims=declared.claims,
            namespaces=_labels_by_namespace(lists),
            volumes=_read_volumes(lists, ephemeral),
            overlays=overlays,
            assignments=assignments or {},
            entering=frozenset(in_flight),
            disruption_budgets=_read_budgets(lists, problems),
            problems=tuple(sorted(problems, key=lambda one: (one.object, one.field, one.value))),
            rollouts=frozenset(rollouts),
        ).holding({Pod.from_kube(one).key for one in lists.get(HELD) or ()})

    @staticmethod
    def trim(lists: Mapping[str, Sequence[Manifest]]) -> dict[str, Sequence[Manifest]]:
        """Return the same lists without the fields that no plan reads: environment variables, commands, annotations of
        pods, managed fields.

        Packed lists were read without these fields.
        """
        return {
            plural: items if isinstance(items, Packed) else [redact(one, plural) for one in items]
            for plural, items in lists.items()
            if plural in LISTED or plural == HELD
        }

    def holding(self, held: Collection[str]) -> "Snapshot":
        """Return the snapshot whose pods with these keys are held: their drain does not evict them soon."""
        if not held:
            return self
        marked = tuple(replace(pod, held=True) if pod.key in held else pod for pod in self.pods)
        return replace(self, pods=marked)

    def with_launch_templates(self, resolved: Mapping[str, ResolvedNodeClass]) -> "Snapshot":
        """Return the snapshot whose classes have what the launch templates that they name decide."""
        if not any(each.launch_template for each in self.classes):
            return self
        return replace(self, classes=complete_classes(self.classes, resolved))

    def node_class(self, pool: NodePool) -> NodeClass | None:
        """Return the class that the pool names; None if it does not exist."""
        return next((one for one in self.classes if one.ref == pool.class_ref), None)


def _labels_by_namespace(lists: Mapping[str, Sequence[Manifest]]) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in lists.get("namespaces") or ()}


def _read_budgets(
    lists: Mapping[str, Sequence[Manifest]], problems: list[InvalidManifest]
) -> tuple[PodDisruptionBudget, ...]:
    manifests = lists.get("poddisruptionbudgets") or ()
    return _read_all(PodDisruptionBudget.from_kube, manifests, "PodDisruptionBudget", problems)


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


def _read_volumes(lists: Mapping[str, Sequence[Manifest]], ephemeral: Sequence[Manifest]) -> Volumes:
    """Return the volumes of the lists, with the claims of the ephemeral volumes of these pods."""
    claims = lists.get("persistentvolumeclaims") or ()
    return Volumes.from_lists(
        (*claims, *claims_of_ephemeral_volumes(ephemeral, claims)),
        lists.get("persistentvolumes") or (),
        lists.get("storageclasses") or (),
        lists.get("csinodes") or (),
        lists.get("nodes") or (),
    )


def _with_ephemeral_volumes(pods: Iterable[Manifest], found: list[Manifest]) -> Iterator[Manifest]:
    """Yield the pods one at a time, because they are many; pods with ephemeral volumes are also added to `found`."""
    for pod in pods:
        if any(volume.get("ephemeral") for volume in (pod.get("spec") or {}).get("volumes") or ()):
            found.append(pod)
        yield pod


def _with_kind(manifest: Manifest, kind: str) -> Manifest:
    """Return the manifest with its kind, because lists of built-in kinds omit the kind of each item."""
    return manifest if manifest.get("kind") else {**manifest, "kind": kind}


def _admitted(daemon_set: Manifest, admission: Admission) -> Manifest:
    """Return the daemon set with the fields that admission writes into its pods."""
    spec = daemon_set.get("spec") or {}
    template = spec.get("template") or {}
    return {
        **daemon_set,
        "spec": {**spec, "template": {**template, "spec": admission.spec(template.get("spec") or {})}},
    }


def _as_they_run(daemons: Sequence[DaemonSet], pods: Iterable[Pod]) -> tuple[DaemonSet, ...]:
    """Return the daemon sets with the requests of their newest pod: a vertical autoscaler resizes pods and does not
    change the template."""
    newest: dict[str, Pod] = {}
    for pod in pods:
        if pod.owner_kind == "DaemonSet" and pod.node_name and not pod.terminal:
            before = newest.get(pod.owner_uid)
            if before is None or (pod.created, pod.key) > (before.created, before.key):
                newest[pod.owner_uid] = pod
    asked = {uid: pod.requests for uid, pod in newest.items() if uid}
    return tuple(
        replace(one, constraints=replace(one.constraints, requests=asked.get(one.uid, one.requests))) for one in daemons
    )
