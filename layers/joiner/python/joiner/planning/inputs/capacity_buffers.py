"""CapacityBuffers: capacity that stays free for future pods. It is planned as pods that do not exist, with the lowest
priority of all.

Source: Kubernetes Autoscaling, "CapacityBuffer" (autoscaling.x-k8s.io/v1beta1), as Karpenter interprets it: the
number is the larger of ``replicas`` and the percentage of the scalable object's replicas, and at most what
``limits`` allow.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.cluster import InvalidField, Resources
from joiner.cluster.pod_constraints import PodConstraints
from joiner.pools import InvalidManifest

Manifest = Mapping[str, Any]
Lists = Mapping[str, Sequence[Manifest]]

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
LOWEST_PRIORITY: Final = -(2**31)
FAKE_POD_ANNOTATION: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_POD_PREFIX: Final = "capacity-buffer-"
SCALABLE: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}
MOST_BUFFER_PODS: Final = 10_000


def capacity_buffer_pods(lists: Lists) -> tuple[list[Manifest], list[InvalidManifest]]:
    """Return the pods that represent all buffers, as manifests, and the problems of invalid buffers."""
    pods: list[Manifest] = []
    problems: list[InvalidManifest] = []
    for buffer in lists.get("capacitybuffers") or ():
        spec: Manifest = buffer.get("spec") or {}
        if (
            buffer["metadata"].get("deletionTimestamp")
            or (spec.get("provisioningStrategy") or ACTIVE_CAPACITY) != ACTIVE_CAPACITY
        ):
            continue
        try:
            pods.extend(_pods(buffer, spec, lists))
        except InvalidField as invalid:
            where = f"CapacityBuffer/{_namespace(buffer)}/{buffer['metadata']['name']}"
            problems.append(InvalidManifest(where, invalid.field, str(invalid.value), invalid.remedy))
    return pods, problems


def report_buffers(buffers: Sequence[Manifest]) -> list[InvalidManifest]:
    """Return a warning for each buffer: only `joiner plan` counts it.

    In a cluster an empty node that a buffer needs would be removed, and the buffer would launch it again.
    """
    remedy = (
        "`joiner plan` counts its pods, and in a cluster no capacity is kept for it yet: create a Deployment of pause "
        "pods with a negative priority instead"
    )
    return [
        InvalidManifest(f"CapacityBuffer/{_namespace(one)}/{one['metadata']['name']}", "", "", remedy, "warning")
        for one in buffers
        if not one["metadata"].get("deletionTimestamp")
    ]


def is_buffer_pod(name: str) -> bool:
    """Return whether a pod of this name (``namespace/name`` or the name alone) represents a buffer and is not a real
    pod.

    >>> is_buffer_pod("shop/capacity-buffer-spare-0"), is_buffer_pod("shop/web-0")
    (True, False)
    """
    return name.rpartition("/")[2].startswith(BUFFER_POD_PREFIX)


def _pods(buffer: Manifest, spec: Manifest, lists: Lists) -> list[Manifest]:
    template, there = _template(buffer, spec, lists)
    metadata = buffer["metadata"]
    pod_spec = {
        name: value for name, value in (template.get("spec") or {}).items() if name not in ("volumes", "nodeName")
    }
    pod_spec = {**pod_spec, "priority": LOWEST_PRIORITY, "priorityClassName": ""}
    pod = {
        "metadata": {"namespace": _namespace(buffer), "labels": (template.get("metadata") or {}).get("labels") or {}},
        "spec": pod_spec,
    }
    waits = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}],
    }
    return [
        {
            **pod,
            "metadata": {
                **pod["metadata"],
                "name": f"{BUFFER_POD_PREFIX}{metadata['name']}-{number}",
                "uid": f"{metadata.get('uid') or metadata['name']}-{number}",
                "annotations": {FAKE_POD_ANNOTATION: "true"},
            },
            "status": waits,
        }
        for number in range(_desired(spec, pod, there))
    ]


def _template(buffer: Manifest, spec: Manifest, lists: Lists) -> tuple[Manifest, int]:
    """Return the pod template, and the number of pods of the scalable object."""
    by_name: Manifest = spec.get("podTemplateRef") or {}
    scalable: Manifest = spec.get("scalableRef") or {}
    if bool(by_name) == bool(scalable):
        raise InvalidField("spec", "", "give exactly one of podTemplateRef and scalableRef")
    if by_name:
        found = _find(lists.get("podtemplates") or (), _namespace(buffer), by_name.get("name"))
        if found is None:
            raise InvalidField(
                "spec.podTemplateRef.name", by_name.get("name"), "there is no such PodTemplate in its namespace"
            )
        if spec.get("replicas") is None and not spec.get("limits"):
            raise InvalidField("spec.replicas", None, "with a podTemplateRef give replicas or limits")
        return found.get("template") or {}, 0
    kind = scalable.get("kind")
    if kind not in SCALABLE:
        raise InvalidField("spec.scalableRef.kind", kind, f"use one of {', '.join(SCALABLE)}")
    found = _find(lists.get(SCALABLE[kind]) or (), _namespace(buffer), scalable.get("name"))
    if found is None:
        raise InvalidField("spec.scalableRef.name", scalable.get("name"), f"there is no such {kind} in its namespace")
    own: Manifest = found.get("spec") or {}
    replicas = own.get("replicas")
    return own.get("template") or {}, 1 if replicas is None else int(replicas)


def _desired(spec: Manifest, pod: Manifest, there: int) -> int:
    wanted = [int(spec["replicas"])] if spec.get("replicas") is not None else []
    if spec.get("percentage") is not None:
        wanted.append(max(1, math.ceil(int(spec["percentage"]) * there / 100)))
    limits = _limit(spec.get("limits") or {}, pod)
    number = max(wanted) if wanted else (limits if limits is not None else 0)
    return max(0, min(number, MOST_BUFFER_PODS if limits is None else limits, MOST_BUFFER_PODS))


def _limit(limits: Manifest, pod: Manifest) -> int | None:
    asked = PodConstraints.from_kube(pod).requests
    parts = [amount // asked[name] for name, amount in Resources.from_kube(limits).items() if asked.get(name)]
    return min(parts, default=None)


def _find(items: Sequence[Manifest], namespace: str, name: object) -> Manifest | None:
    return next((one for one in items if _namespace(one) == namespace and one["metadata"]["name"] == name), None)


def _namespace(one: Manifest) -> str:
    return str(one["metadata"].get("namespace") or "default")
