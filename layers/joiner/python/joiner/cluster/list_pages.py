"""Pages of a list from the API server, decoded into the fields that Joiner reads.

Most of a listed object is managed fields, environments and statuses. They are skipped while the bytes are decoded, so
memory depends on the fields that are kept: about a quarter of a pod of 5 kB. Pages are decoded one at a time;
``Packed`` keeps the result as JSON.

Source: Kubernetes, "API Concepts" (retrieving large results sets in chunks).

>>> spec = b'{"containers": [{"name": "main", "env": []}]}'
>>> page = b'{"items": [{"metadata": {"name": "web-0", "managedFields": []}, "spec": ' + spec + b"}]}"
>>> read_page(page, PODS)[0]
[{'metadata': {'name': 'web-0'}, 'spec': {'containers': [{'name': 'main'}]}}]
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypedDict, TypeVar, overload

import msgspec

from joiner import names

Manifest = Mapping[str, Any]

PODS: Final = "pods"
MIRROR: Final = "kubernetes.io/config.mirror"
READ_ANNOTATIONS: Final = (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE, names.DO_NOT_EVICT, names.POD_DELETION_COST)
"""The annotations of pods that Joiner reads, besides its own."""
CONDITIONS: Final = ("PodScheduled", "PodResizePending")
"""The conditions of a pod that Joiner uses. Of Ready, only one that is not True is kept: a pod without it is ready."""

ListedObject = TypeVar("ListedObject")
ListMetadata = TypedDict("ListMetadata", {"continue": str | None}, total=False)


class Metadata(TypedDict, total=False):
    """The decoded metadata of most objects."""

    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    labels: Any
    annotations: Any
    deletionTimestamp: Any
    creationTimestamp: Any
    ownerReferences: Any
    finalizers: Any


class PodMetadata(TypedDict, total=False):
    """The decoded metadata of a pod. Of its annotations, those that Joiner reads are kept, and misspelt ones."""

    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    labels: Any
    annotations: dict[str, Any] | None
    deletionTimestamp: Any
    creationTimestamp: Any
    ownerReferences: Any
    finalizers: Any


class ListedContainer(TypedDict, total=False):
    """The decoded fields of a container: its resources, restart policy and ports."""

    name: Any
    resources: Any
    restartPolicy: Any
    ports: Any


class ListedVolume(TypedDict, total=False):
    """The decoded fields of a pod's volume: the claim that it mounts."""

    name: Any
    persistentVolumeClaim: Any
    ephemeral: Any


class PodSpec(TypedDict, total=False):
    """The decoded fields of a pod's spec: those that scheduling depends on."""

    containers: list[ListedContainer] | None
    initContainers: list[ListedContainer] | None
    volumes: list[ListedVolume] | None
    affinity: Any
    hostNetwork: Any
    nodeName: Any
    nodeSelector: Any
    os: Any
    overhead: Any
    priority: Any
    priorityClassName: Any
    resourceClaims: Any
    resources: Any
    runtimeClassName: Any
    schedulerName: Any
    schedulingGates: Any
    terminationGracePeriodSeconds: Any
    tolerations: Any
    topologySpreadConstraints: Any


class ListedCondition(TypedDict, total=False):
    """The decoded fields of a condition of a pod."""

    type: Any
    status: Any
    reason: Any
    message: Any


class ListedContainerStatus(TypedDict, total=False):
    """The decoded status of a container: the resources that it has."""

    name: Any
    resources: Any
    allocatedResources: Any


class PodStatus(TypedDict, total=False):
    """The decoded fields of a pod's status."""

    phase: Any
    nominatedNodeName: Any
    startTime: Any
    conditions: list[ListedCondition] | None
    containerStatuses: list[ListedContainerStatus] | None
    initContainerStatuses: list[ListedContainerStatus] | None
    resources: Any
    allocatedResources: Any


class ListedPod(TypedDict, total=False):
    """A pod of a list."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus


class NodeStatus(TypedDict, total=False):
    """The decoded fields of a node's status."""

    capacity: Any
    allocatable: Any
    conditions: Any


class ListedNode(TypedDict, total=False):
    """A node of a list."""

    metadata: Metadata
    spec: Any
    status: NodeStatus


class TemplateMetadata(TypedDict, total=False):
    """The decoded metadata of a pod template."""

    labels: Any


class PodTemplate(TypedDict, total=False):
    """The decoded fields of a pod template."""

    metadata: TemplateMetadata
    spec: PodSpec


class DaemonSetSpec(TypedDict, total=False):
    """The decoded fields of a daemon set's spec."""

    template: PodTemplate


class ListedDaemonSet(TypedDict, total=False):
    """A daemon set of a list."""

    metadata: Metadata
    spec: DaemonSetSpec


class ListedNamespace(TypedDict, total=False):
    """A namespace of a list."""

    metadata: Metadata


class ListedAttachment(TypedDict, total=False):
    """A VolumeAttachment of a list."""

    metadata: Metadata
    spec: Any


class ListPage(TypedDict, Generic[ListedObject], total=False):
    """One page of a list; `metadata` has the token of the next page."""

    metadata: ListMetadata
    items: list[ListedObject] | None


DECODERS: Final[Mapping[str, Any]] = {
    PODS: msgspec.json.Decoder(ListPage[ListedPod]),
    "nodes": msgspec.json.Decoder(ListPage[ListedNode]),
    "daemonsets": msgspec.json.Decoder(ListPage[ListedDaemonSet]),
    "namespaces": msgspec.json.Decoder(ListPage[ListedNamespace]),
    "volumeattachments": msgspec.json.Decoder(ListPage[ListedAttachment]),
}
"""Types by plural name. Objects of other kinds are read completely, except their managed fields."""


def read_page(page: bytes, plural: str) -> tuple[list[Manifest], str]:
    """Return the objects of one answer to a list request, and its continue token (empty on the last page).

    ``msgspec.DecodeError`` if the answer is not JSON. An object that does not match its type is read completely, so
    that the reader of its values can name the field.
    """
    decoder = DECODERS.get(plural)
    try:
        answer = decoder.decode(page) if decoder is not None else _read_whole(page)
        items = list(answer.get("items") or ())
        if plural == PODS:
            for one in items:
                _drop_unread(one)
    except msgspec.ValidationError:
        answer = _read_whole(page)
        items = list(answer.get("items") or ())
    return items, str((answer.get("metadata") or {}).get("continue") or "")


def _read_whole(page: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = msgspec.json.decode(page)
    for one in answer.get("items") or ():
        metadata = one.get("metadata") if isinstance(one, dict) else None
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
    return answer


def _drop_unread(pod: dict[str, Any]) -> None:
    """Drop annotations, conditions, volumes and container statuses that Joiner does not use; every running pod has some
    of them."""
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    if annotations := metadata.pop("annotations", None):
        read = {key: value for key, value in annotations.items() if is_read_annotation(key) or key == MIRROR}
        if read:
            metadata["annotations"] = read
    _keep(spec, "volumes", lambda one: one.get("persistentVolumeClaim") or one.get("ephemeral"))
    _keep(status, "conditions", _is_used_condition)
    for kind in ("containerStatuses", "initContainerStatuses"):
        _keep(status, kind, lambda one: one.get("resources") or one.get("allocatedResources"))


def is_read_annotation(key: str) -> bool:
    """Return whether Joiner reads an annotation of a pod; it reports those that have its prefix and no effect."""
    return key in READ_ANNOTATIONS or key.startswith(names.PREFIX)


def _is_used_condition(one: Manifest) -> bool:
    return one.get("type") in CONDITIONS or (one.get("type") == "Ready" and one.get("status") != "True")


def _keep(part: dict[str, Any], field: str, wanted: Callable[[Manifest], Any]) -> None:
    kept = [one for one in part.pop(field, None) or () if wanted(one)]
    if kept:
        part[field] = kept


class Packed(Sequence[Manifest]):
    """Manifests kept as JSON, one item for each page; iteration decodes one page at a time.

    >>> packed = Packed([Packed.pack([{"a": 1}, {"a": 2}]), Packed.pack([{"a": 3}])])
    >>> len(packed), [one["a"] for one in packed], packed[-1]
    (3, [1, 2, 3], {'a': 3})
    """

    PAGE: Final = 500

    __slots__ = ("_pages",)

    def __init__(self, pages: Iterable[tuple[int, bytes]] = ()) -> None:
        self._pages = tuple(page for page in pages if page[0])

    @staticmethod
    def pack(manifests: Sequence[Manifest]) -> tuple[int, bytes]:
        """Return one page: the number of manifests, and their JSON array."""
        return len(manifests), msgspec.json.encode(manifests)

    @classmethod
    def of_array(cls, array: bytes) -> "Packed":
        """Return the manifests of one JSON array."""
        manifests = msgspec.json.decode(array, type=list[msgspec.Raw])
        pages = (manifests[start : start + cls.PAGE] for start in range(0, len(manifests), cls.PAGE))
        return cls((len(page), b"[" + b",".join(page) + b"]") for page in pages)

    def array(self) -> bytes:
        """Return all manifests as one JSON array."""
        return b"[" + b",".join(page[1:-1] for _, page in self._pages) + b"]"

    def __len__(self) -> int:
        return sum(count for count, _ in self._pages)

    def __iter__(self) -> Iterator[Manifest]:
        for _, page in self._pages:
            yield from msgspec.json.decode(page)

    @overload
    def __getitem__(self, index: int) -> Manifest: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Manifest]: ...

    def __getitem__(self, index: int | slice) -> Manifest | Sequence[Manifest]:
        if isinstance(index, slice):
            return list(self)[index]
        position = index + len(self) if index < 0 else index
        for count, page in self._pages:
            if 0 <= position < count:
                one: Manifest = msgspec.json.decode(page)[position]
                return one
            position -= count
        raise IndexError(index)
