"""Pods: the fields of the API server's pods that the planner reads.

Sources of *provisionable*: Karpenter, "Scheduling"; Kubernetes, "Pod Lifecycle".
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from joiner import names
from joiner.cluster.pod_constraints import PodConstraints
from joiner.cluster.resources import Resources
from joiner.cluster.taints import DISRUPTED_TAINT

Manifest = Mapping[str, Any]

NOTHING_CLAIMED: Final[Mapping[str, str]] = MappingProxyType({})
GRACE: Final = "terminationGracePeriodSeconds"
DEFAULT_GRACE_SECONDS: Final = 30
"""That of a pod without the field. Source: Kubernetes, "Pod Lifecycle"."""
ENDED: Final = ("Succeeded", "Failed")
OF_NODES: Final = ("DaemonSet", "Node")
"""Kinds of owners whose pods belong to their node."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod.

    ``owner_kind`` is the kind of its controller. ``unschedulable`` is the message of a scheduler that found no node, or
    None. ``key`` and ``provisionable`` follow from the other fields. They are computed once, because plans read them
    often.
    """

    namespace: str
    name: str
    _: KW_ONLY
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    constraints: PodConstraints = field(default_factory=PodConstraints)
    node_name: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    deletion: str = ""
    created: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    gates: tuple[str, ...] = ()
    unschedulable: str | None = None
    protection: str = ""
    """The value of its annotation against disruption: ``true``, a duration from its start, or empty."""
    started: str = ""
    ready: bool = True
    """False if its Ready condition is not True. A pod without the condition counts as ready."""
    deletion_cost: int = 0
    leaves_by_rollout: bool = False
    """Whether a drain restarts the rollout of its Deployment: its replacement is created before it leaves."""
    claimed: Mapping[str, str] = field(default_factory=lambda: NOTHING_CLAIMED)
    """Its annotations with the prefix of Joiner, and the one of Karpenter that only nodes have: some have no effect."""
    held: bool = False
    """Whether the drain of its node will not evict it soon (`joiner.pools.held_pods`). The manifest does not say it."""
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    """How long it may take to end after it was asked to: its terminationGracePeriodSeconds."""
    key: str = field(init=False, repr=False, compare=False)
    """``namespace/name``."""
    provisionable: bool = field(init=False, repr=False, compare=False)
    """Whether a new node could help the pod.

    Its scheduler found no node, no pod is preempted for it, and it belongs to no daemon set. A gated pod is not
    provisionable: its scheduler has not tried it, and its condition is SchedulingGated.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.namespace}/{self.name}")
        held_up = self.node_name or self.nominated_node or self.gates or self.deletion or self.phase in ENDED
        object.__setattr__(
            self, "provisionable", self.unschedulable is not None and not held_up and not self.stays_with_node
        )

    @classmethod
    def from_kube(cls, manifest: Manifest) -> "Pod":
        """Read a pod. InvalidField if a field that decides where it may run is not valid."""
        metadata: Manifest = manifest.get("metadata") or {}
        spec: Manifest = manifest.get("spec") or {}
        status: Manifest = manifest.get("status") or {}
        owner: Manifest = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), {})
        scheduled: Manifest = next(
            (one for one in status.get("conditions") or () if one.get("type") == "PodScheduled"), {}
        )
        waiting = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        return cls(
            namespace=_shared(metadata.get("namespace") or "default"),
            name=metadata.get("name") or "",
            uid=metadata.get("uid") or "",
            resource_version=metadata.get("resourceVersion") or "",
            labels=_shared_labels(metadata.get("labels") or {}),
            constraints=PodConstraints.from_kube(manifest),
            node_name=_shared(spec.get("nodeName") or ""),
            nominated_node=status.get("nominatedNodeName") or "",
            phase=status.get("phase") or "Pending",
            deletion=metadata.get("deletionTimestamp") or "",
            created=metadata.get("creationTimestamp") or "",
            owner_kind=_shared(owner.get("kind") or ""),
            owner_name=_shared(owner.get("name") or ""),
            owner_uid=_shared(owner.get("uid") or ""),
            gates=tuple(one.get("name") or "" for one in spec.get("schedulingGates") or ()),
            unschedulable=(scheduled.get("message") or "") if waiting else None,
            protection=read_protection(annotations) if annotations else "",
            started=_shared(status.get("startTime") or ""),
            ready=all(
                one.get("status") == "True" for one in status.get("conditions") or () if one.get("type") == "Ready"
            ),
            deletion_cost=_deletion_cost(annotations) if annotations else 0,
            leaves_by_rollout=annotations.get(names.DRAIN) == names.BY_ROLLOUT,
            claimed=_claimed(annotations) if annotations else NOTHING_CLAIMED,
            grace_seconds=DEFAULT_GRACE_SECONDS if (grace := spec.get(GRACE)) is None else int(grace),
        )

    @property
    def class_key(self) -> str:
        """The same key for all pods that may run on the same nodes. A slot is for any pod of a class."""
        return self.constraints.class_key

    @property
    def requests(self) -> Resources:
        """Return what the pod requests, in the units of `Resources`."""
        return self.constraints.requests

    @property
    def priority(self) -> int:
        """Return its priority; the scheduler prefers higher ones."""
        return self.constraints.priority

    @property
    def terminal(self) -> bool:
        """Whether the pod has ended and uses no resources."""
        return self.phase in ENDED

    @property
    def stays_with_node(self) -> bool:
        """Whether the pod belongs to its node (of a daemon set, or static) and is not replaced on another node."""
        return self.owner_kind in OF_NODES

    @property
    def never_disrupted(self) -> bool:
        """Whether its annotation forbids disruption as long as it runs."""
        return self.protection == "true"

    @property
    def outlasts_drain(self) -> bool:
        """Whether a drain leaves the pod on its node, because it tolerates the taint of the drain."""
        return self.constraints.untolerated((DISRUPTED_TAINT,)) is None

    @property
    def moves(self) -> bool:
        """Whether a drain of the node makes the pod need another node soon, because its controller replaces it.

        A pod that tolerates the drain's taint stays until the end. A pod that must not be disrupted, or is
        held, leaves at an unknown time, or much later. The replacement of a pod that leaves by a rollout is a
        pending pod of its own before that.
        """
        unaffected = self.stays_with_node or self.never_disrupted or self.leaves_by_rollout or self.held
        stays = unaffected or self.outlasts_drain
        return bool(self.node_name and self.owner_kind) and not (self.terminal or self.deletion or stays)


def read_protection(annotations: Mapping[str, str]) -> str:
    """Return the value of the annotation against disruption: `true`, a duration, or empty without one."""
    if annotations.get(names.DO_NOT_EVICT) == "true":
        return "true"
    return annotations.get(names.DO_NOT_DISRUPT) or ""


def _claimed(annotations: Mapping[str, str]) -> Mapping[str, str]:
    found = {
        key: value
        for key, value in annotations.items()
        if key.startswith(names.PREFIX) or key == names.DO_NOT_CONSOLIDATE
    }
    return found or NOTHING_CLAIMED


def _deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return the pod deletion cost; 0 for an invalid value, which the API server refuses for new pods."""
    try:
        return int(annotations.get(names.POD_DELETION_COST) or 0)
    except ValueError:
        return 0


@lru_cache(maxsize=8192)
def _shared(value: str) -> str:
    """Return the same string object for equal strings: fifty thousand pods have a few hundred owners and nodes."""
    return value


@lru_cache(maxsize=8192)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(items))


def _shared_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return one mapping for all pods with these labels, because replicas have equal labels.

    Labels that cannot be hashed are returned unchanged.
    """
    try:
        return _labels(tuple(labels.items()))
    except (AttributeError, TypeError):
        return labels
