"""Events on the objects of a decision, as `kubectl describe` shows them.

Reasons are those of Cluster Autoscaler and Karpenter, if they have one. A pod that stays pending never gets
``FailedScheduling``: that reason belongs to the scheduler, and such an event starts Joiner again.

Events are written in the core API, as Karpenter writes them: events.k8s.io refuses `lastTimestamp`, and without it
`kubectl get events --sort-by=.lastTimestamp` shows an event before all others. Both APIs show the same events.

The name of an event is a digest of its content and its slot of ten minutes. So the same event in the same slot is not
created twice. Two slots may meet between two reports, so the event of a state that lasts is left out if the slot before
has it: there are at least ten minutes between two such events.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from joiner.cluster import Node, Pod
from joiner.names import CONTROLLER
from joiner.pools import NodeClaim, NodeClass, NodePool
from joiner.pools.timestamps import format_timestamp

SLOT_SECONDS: Final = 600
NOTE_LIMIT: Final = 1024  # bytes
NAME_LIMIT: Final = 253
OWNERS: Final[Mapping[str, str]] = {
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "StatefulSet": "apps/v1",
}
"""Kinds of workloads that create pods -> their API version."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of an event."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    namespace: str = ""

    @classmethod
    def pod(cls, pod: Pod) -> "Subject":
        """Return the reference to a pod."""
        return cls("v1", "Pod", pod.name, pod.uid, pod.namespace)

    @classmethod
    def owner_of(cls, pod: Pod) -> "Subject | None":
        """Return the workload that a pod belongs to.

        None for a pod without a controller, or if its API group is not known here.
        """
        version = OWNERS.get(pod.owner_kind)
        return cls(version, pod.owner_kind, pod.owner_name, pod.owner_uid, pod.namespace) if version else None

    @classmethod
    def node(cls, node: Node) -> "Subject":
        """Return a node as subject. Its uid is its name.

        Kubernetes' own components write it so, and `kubectl describe node` expects it.
        """
        return cls("v1", "Node", node.name, node.name)

    @classmethod
    def claim(cls, claim: NodeClaim) -> "Subject":
        """Return the reference to a NodeClaim or a Machine."""
        return cls(claim.api_version, claim.kind, claim.name, claim.uid)

    @classmethod
    def pool(cls, pool: NodePool) -> "Subject":
        """Return the reference to a NodePool or a Provisioner."""
        return cls(pool.api_version, pool.kind, pool.name, pool.uid)

    @classmethod
    def node_class(cls, node_class: NodeClass) -> "Subject":
        """Return a class as subject. For an inline provider this is its Provisioner."""
        if node_class.kind == "Inline":
            return cls("karpenter.sh/v1alpha5", "Provisioner", node_class.name, node_class.uid)
        version = "karpenter.k8s.aws/v1" if node_class.kind == "EC2NodeClass" else "karpenter.k8s.aws/v1alpha1"
        return cls(version, node_class.kind, node_class.name, node_class.uid)


@dataclass(frozen=True, slots=True)
class Event:
    """One event about one object: reason and action are one word each, the note is one sentence.

    `news` identifies the event instead of the note, if the note has amounts that change. `owner` is the object that
    gets one event instead, if many of its objects have the same news. The same event is written once in `slot_seconds`.
    A `lasting` event is about a state that every plan reports; it is not written in a slot that follows one with it.
    """

    subject: Subject
    reason: str
    action: str
    note: str
    kind: Literal["Normal", "Warning"] = "Normal"
    news: str = ""
    owner: Subject | None = None
    slot_seconds: int = SLOT_SECONDS
    lasting: bool = False

    @property
    def namespace(self) -> str:
        """Return the namespace of the event: ``default`` for objects without a namespace."""
        return self.subject.namespace or "default"

    def to_kube(self, at: datetime, instance: str) -> Mapping[str, Any]:
        """Return the manifest of the event, reported by the execution `instance` at `at`."""
        slot = int(at.timestamp()) // self.slot_seconds
        content = "\n".join((self.subject.uid, self.subject.kind, self.reason, self.news or self.note, str(slot)))
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        about = {"apiVersion": self.subject.api_version, "kind": self.subject.kind, "name": self.subject.name}
        about |= ({"namespace": self.subject.namespace} if self.subject.namespace else {}) | (
            {"uid": self.subject.uid} if self.subject.uid else {}
        )
        return {
            "metadata": {"name": f"{self.subject.name[: NAME_LIMIT - 17]}.{digest}", "namespace": self.namespace},
            "eventTime": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
            **dict.fromkeys(("firstTimestamp", "lastTimestamp"), format_timestamp(at)),
            "count": 1,
            "reportingComponent": CONTROLLER,
            "reportingInstance": instance[:128],
            "involvedObject": about,
            "reason": self.reason,
            "action": self.action,
            "message": shorten_note(self.note),
            "type": self.kind,
        }


def shorten_note(note: str, end: str = "") -> str:
    """Return the note with this end, cut before the end to the limit of the API server, which is in bytes.

    >>> len(shorten_note("ä" * 600).encode()) <= NOTE_LIMIT, shorten_note("ä" * 600, " (1 more)")[-11:]
    (True, 'ä… (1 more)')
    """
    encoded, most = note.encode(), NOTE_LIMIT - len(end.encode())
    if len(encoded) <= most:
        return note + end
    return encoded[: most - len("…".encode())].decode(errors="ignore") + "…" + end
