"""CapacityBuffers: capacity that stays free for future pods. It is planned as virtual pods, which do not exist, with
the lowest priority of all.

Source: Kubernetes Autoscaling, "CapacityBuffer" (autoscaling.x-k8s.io/v1beta1), as Karpenter interprets it: the
number is the larger of ``replicas`` and the percentage of the scalable object's replicas, and at most what
``limits`` allow.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.cluster import InvalidField, Resources
from joiner.cluster.pod_constraints import PodConstraints
from joiner.names import SCHEDULE
from joiner.planning.inputs.admission import Admission
from joiner.pools import InvalidManifest
from joiner.pools.codecs.manifest_fields import ManifestProblems, describe_rounding
from joiner.pools.codecs.misplaced_annotations import BUFFER, note_annotations, note_labels
from joiner.pools.invalid_manifests import Severity
from joiner.pools.replica_schedule import ReplicaSchedule

Manifest = Mapping[str, Any]
Lists = Mapping[str, Sequence[Manifest]]

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
LOWEST_PRIORITY: Final = -(2**31)
FAKE_POD_ANNOTATION: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_POD_PREFIX: Final = "capacity-buffer:"
"""No pod of the API server has such a name, because a colon is not allowed in it."""
SCALABLE: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}
SCALABLE_GROUP: Final = "apps"
"""The API group of the scalable kinds. A reference without a group means it, too."""
MOST_BUFFER_PODS: Final = 10_000
"""Maximum of virtual pods of one buffer."""
NOT_REQUESTED: Final = "it limits nothing, because the pods of the buffer do not request this resource"

NOT_OF_CAPACITY: Final = ("volumes", "nodeName", "schedulingGates")
"""Fields of a template that virtual pods do not have. A gate delays the pods that come, not their capacity."""

RESOLVED: Final = "Resolved"
TEMPLATE_NOT_FOUND: Final = "PodTemplateNotFound"
SCALABLE_NOT_FOUND: Final = "ScalableRefNotFound"
FAILED: Final = "ResolutionFailed"
OTHER_STRATEGY: Final = "ProvisioningStrategyNotSupported"


class _Unresolved(Exception):
    """The buffer has no pods: the reason of its condition, and the field at fault."""

    def __init__(self, reason: str, field: str, value: object, remedy: str) -> None:
        super().__init__(remedy)
        self.reason, self.field, self.value = reason, field, "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class ResolvedBuffer:
    """One buffer and its virtual pods, as manifests.

    ``reason`` is that of its condition ``ReadyForProvisioning``, and ``problem`` is what keeps it from being planned.
    ``template`` and ``template_generation`` are those of its PodTemplate, if it names one. ``notes`` are warnings that
    do not keep it from being planned.
    """

    namespace: str
    name: str
    pods: tuple[Manifest, ...] = ()
    reason: str = RESOLVED
    problem: InvalidManifest | None = None
    template: str = ""
    template_generation: int | None = None
    notes: tuple[InvalidManifest, ...] = ()

    @property
    def key(self) -> str:
        """Return the name of the buffer in problems."""
        return f"CapacityBuffer/{self.namespace}/{self.name}"

    @property
    def pod_keys(self) -> tuple[str, ...]:
        """Return the keys (``namespace/name``) of its virtual pods."""
        return tuple(f"{self.namespace}/{pod['metadata']['name']}" for pod in self.pods)


def resolve_buffers(lists: Lists) -> list[ResolvedBuffer]:
    """Return all buffers that are not being deleted, with their virtual pods, or with the reason why they have none."""
    admission = Admission(lists)
    return [
        _resolve(buffer, lists, admission)
        for buffer in lists.get("capacitybuffers") or ()
        if not buffer["metadata"].get("deletionTimestamp")
    ]


def capacity_buffer_pods(lists: Lists) -> tuple[list[Manifest], list[InvalidManifest]]:
    """Return the virtual pods of all buffers, as manifests, and the problems of the buffers."""
    found = resolve_buffers(lists)
    problems = [each for buffer in found for each in (buffer.problem, *buffer.notes) if each is not None]
    return [pod for buffer in found for pod in buffer.pods], problems


def is_buffer_pod(name: str) -> bool:
    """Return whether a pod of this name (``namespace/name`` or the name alone) is a virtual pod of a buffer.

    >>> is_buffer_pod("shop/capacity-buffer:spare-0"), is_buffer_pod("shop/capacity-buffer-0")
    (True, False)
    """
    return name.rpartition("/")[2].startswith(BUFFER_POD_PREFIX)


def _resolve(buffer: Manifest, lists: Lists, admission: Admission) -> ResolvedBuffer:
    namespace, name = _namespace(buffer), str(buffer["metadata"]["name"])
    key = f"CapacityBuffer/{namespace}/{name}"
    spec: Manifest = buffer.get("spec") or {}
    try:
        template, there = _template(spec, namespace, lists)
        pod, number = admission.admit(_pod(template, namespace)), 0
        try:
            number = _desired(spec, pod, there)
        except InvalidField as invalid:
            raise _Unresolved(FAILED, invalid.field, invalid.value, invalid.remedy) from invalid
    except _Unresolved as reason:
        severity: Severity = "warning" if reason.reason == OTHER_STRATEGY else "error"
        problem = InvalidManifest(key, reason.field, reason.value, str(reason), severity)
        return ResolvedBuffer(namespace, name, (), reason.reason, problem, notes=tuple(metadata_notes(buffer)))
    by_name = spec.get("podTemplateRef") or {}
    return ResolvedBuffer(
        namespace,
        name,
        _numbered(pod, buffer, min(number, MOST_BUFFER_PODS)),
        template=str(by_name.get("name") or ""),
        template_generation=(template.get("generation") if by_name else None),
        notes=(
            *metadata_notes(buffer),
            *_size_notes(key, number),
            *_field_notes(key, spec, pod),
        ),
    )


def _pod(template: Manifest, namespace: str) -> Manifest:
    kept = template.get("template") or {}
    pod_spec = {name: value for name, value in (kept.get("spec") or {}).items() if name not in NOT_OF_CAPACITY}
    return {
        "metadata": {"namespace": namespace, "labels": (kept.get("metadata") or {}).get("labels") or {}},
        "spec": {**pod_spec, "priority": LOWEST_PRIORITY, "priorityClassName": ""},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}],
        },
    }


def _numbered(pod: Manifest, buffer: Manifest, number: int) -> tuple[Manifest, ...]:
    metadata = buffer["metadata"]
    return tuple(
        {
            **pod,
            "metadata": {
                **pod["metadata"],
                "name": f"{BUFFER_POD_PREFIX}{metadata['name']}-{index}",
                "uid": f"{metadata.get('uid') or metadata['name']}-{index}",
                "annotations": {FAKE_POD_ANNOTATION: "true"},
            },
        }
        for index in range(number)
    )


def _template(spec: Manifest, namespace: str, lists: Lists) -> tuple[Manifest, int]:
    """Return the template of the pods with its generation, and the number of pods of the scalable object."""
    strategy = spec.get("provisioningStrategy") or ACTIVE_CAPACITY
    if strategy != ACTIVE_CAPACITY:
        remedy = f"no capacity is kept for it: use {ACTIVE_CAPACITY}, or leave the buffer to its own controller"
        raise _Unresolved(OTHER_STRATEGY, "spec.provisioningStrategy", strategy, remedy)
    by_name: Manifest = spec.get("podTemplateRef") or {}
    scalable: Manifest = spec.get("scalableRef") or {}
    if bool(by_name) == bool(scalable):
        raise _Unresolved(FAILED, "spec", "", "give exactly one of podTemplateRef and scalableRef")
    if by_name:
        found = _find(lists.get("podtemplates") or (), namespace, by_name.get("name"))
        if found is None:
            remedy = "there is no such PodTemplate in its namespace"
            raise _Unresolved(TEMPLATE_NOT_FOUND, "spec.podTemplateRef.name", by_name.get("name"), remedy)
        if spec.get("replicas") is None and not spec.get("limits"):
            raise _Unresolved(FAILED, "spec.replicas", None, "with a podTemplateRef give replicas or limits")
        return {"template": found.get("template"), "generation": found["metadata"].get("generation")}, 0
    own: Manifest = _find_scalable(scalable, namespace, lists).get("spec") or {}
    replicas = own.get("replicas")
    return {"template": own.get("template")}, 1 if replicas is None else int(replicas)


def _find_scalable(reference: Manifest, namespace: str, lists: Lists) -> Manifest:
    kind, group = reference.get("kind"), reference.get("apiGroup")
    remedy = f"use one of {', '.join(SCALABLE)} of the group {SCALABLE_GROUP}, or name a PodTemplate"
    if kind not in SCALABLE:
        raise _Unresolved(SCALABLE_NOT_FOUND, "spec.scalableRef.kind", kind, remedy)
    if group and group != SCALABLE_GROUP:
        raise _Unresolved(SCALABLE_NOT_FOUND, "spec.scalableRef.apiGroup", group, remedy)
    found = _find(lists.get(SCALABLE[kind]) or (), namespace, reference.get("name"))
    if found is None:
        remedy = f"there is no such {kind} in its namespace"
        raise _Unresolved(SCALABLE_NOT_FOUND, "spec.scalableRef.name", reference.get("name"), remedy)
    return found


def _desired(spec: Manifest, pod: Manifest, there: int) -> int:
    wanted = [int(spec["replicas"])] if spec.get("replicas") is not None else []
    if spec.get("percentage") is not None and spec.get("scalableRef"):
        wanted.append(max(1, math.ceil(int(spec["percentage"]) * there / 100)))
    limits = _limit(spec.get("limits") or {}, pod)
    number = max(wanted) if wanted else (limits if limits is not None else 0)
    return max(0, number if limits is None else min(number, limits))


def _limit(limits: Manifest, pod: Manifest) -> int | None:
    asked = PodConstraints.from_kube(pod).requests
    parts = [amount // asked[name] for name, amount in Resources.limits_from_kube(limits).items() if asked.get(name)]
    return min(parts, default=None)


def _size_notes(key: str, number: int) -> list[InvalidManifest]:
    if number <= MOST_BUFFER_PODS:
        return []
    remedy = f"capacity is kept for {MOST_BUFFER_PODS} pods: divide it into several buffers, or give larger pods"
    return [InvalidManifest(key, "spec", f"{number} pods", remedy, "warning")]


def _field_notes(key: str, spec: Manifest, pod: Manifest) -> list[InvalidManifest]:
    """Return a note for each field that changes nothing."""
    limits: Manifest = spec.get("limits") or {}
    asked = PodConstraints.from_kube(pod).requests if limits else Resources({})
    notes = [
        InvalidManifest(key, f"spec.limits.{name}", amount, NOT_REQUESTED, "warning")
        for name, amount in limits.items()
        if not asked.get(name)
    ]
    notes += [
        InvalidManifest(key, f"spec.limits.{name}", str(amount), remedy, "warning")
        for name, amount in limits.items()
        if asked.get(name) and (remedy := describe_rounding(name, amount, down=True))
    ]
    if spec.get("percentage") is not None and not spec.get("scalableRef"):
        remedy = "it has no effect without a scalableRef, whose pods it counts: give replicas or limits"
        notes.append(InvalidManifest(key, "spec.percentage", spec["percentage"], remedy, "warning"))
    return notes


def metadata_notes(buffer: Manifest) -> list[InvalidManifest]:
    """Return the warnings about the schedule, the annotations and the labels of a buffer, whatever its spec is."""
    key = f"CapacityBuffer/{_namespace(buffer)}/{buffer['metadata'].get('name', '')}"
    return [*_schedule_notes(key, buffer), *_annotation_notes(key, buffer)]


def _schedule_notes(key: str, buffer: Manifest) -> list[InvalidManifest]:
    text = (buffer["metadata"].get("annotations") or {}).get(SCHEDULE)
    if text is None:
        return []
    try:
        remedies = ReplicaSchedule.parse(str(text)).describe_idle_windows()
    except ValueError as reason:
        remedies = (f'it has no effect; {reason}; write windows such as "Europe/Oslo: 0 8 * * mon-fri for 10h = 6"',)
    field = f"metadata.annotations[{SCHEDULE}]"
    return [InvalidManifest(key, field, str(text), remedy, "warning") for remedy in remedies]


def _annotation_notes(key: str, buffer: Manifest) -> list[InvalidManifest]:
    notes, metadata = ManifestProblems(key), buffer["metadata"]
    note_annotations(metadata.get("annotations") or {}, notes, "metadata.annotations", BUFFER)
    note_labels(metadata.get("labels") or {}, notes, "metadata.labels")
    return notes.problems


def _find(items: Sequence[Manifest], namespace: str, name: object) -> Manifest | None:
    return next((one for one in items if _namespace(one) == namespace and one["metadata"]["name"] == name), None)


def _namespace(one: Manifest) -> str:
    return str(one["metadata"].get("namespace") or "default")
