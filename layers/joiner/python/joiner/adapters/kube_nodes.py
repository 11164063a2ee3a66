"""Nodes that are retired: their pods, and changes of taints that other controllers change too."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.parallel_calls import call_each
from joiner.cluster import InvalidField, Node
from joiner.cluster.list_pages import Packed
from joiner.names import LEAVING

log = logging.getLogger(__name__)

TRIES: Final = 5  # the kubelet, the node lifecycle controller and others write to the same list


def list_pods_on(kube: Kube, nodes: Collection[str]) -> dict[str, Packed]:
    """Return the pods of each of these nodes. Raises if one list cannot be read: no decision is made from a part."""
    found: dict[str, Packed] = {}
    for name, answer in list_pods_on_each(kube, nodes).items():
        if isinstance(answer, KubeError):
            raise answer
        found[name] = answer
    return found


def list_pods_on_each(kube: Kube, nodes: Collection[str]) -> dict[str, Packed | KubeError]:
    """Return for each of these nodes its pods, or the error of reading them, for callers that decide about each node
    separately."""
    return dict(
        call_each(sorted(set(nodes)), lambda name: kube.packed(kinds.PODS, fields=f"spec.nodeName={name}"), KubeError)
    )


def list_nodes_by_instance(kube: Kube) -> dict[str, Node]:
    """Return the readable nodes by provider id. Nodes that have none belong to no claim."""
    found = {}
    for manifest in kube.list(kinds.NODES):
        try:
            node = read_node(manifest)
        except InvalidField as invalid:
            log.warning("node %s cannot be read: %s", manifest["metadata"]["name"], invalid)
            continue
        if node.provider_id:
            found[node.provider_id] = node
    return found


def read_node(manifest: Mapping[str, Any]) -> Node:
    """Return a node, also if its capacity is unreadable: a retirement needs only its name, its taints and its labels.

    InvalidField if those cannot be read either.
    """
    try:
        return Node.from_kube(manifest)
    except InvalidField:
        return Node.from_kube({**manifest, "status": {}})


def get_same_node(kube: Kube, node: Node) -> Node | None:
    """Return the current state of a node; None if it is gone, or if another node has its name."""
    try:
        now = read_node(kube.get(kinds.NODES, node.name))
    except NotFound:
        return None
    return now if now.uid == node.uid else None


def patch_node(kube: Kube, node: Node, patch: Callable[[Node], Mapping[str, Any] | None]) -> Node | None:
    """Apply `patch`, which names the version that it was made from, and return the node after it; None if the node is
    gone or replaced.
    """
    for attempt in range(TRIES):
        changes = patch(node)
        if changes is None:
            return node
        try:
            return read_node(kube.patch(kinds.NODES, node.name, changes))
        except NotFound:
            return None
        except Conflict:
            if attempt == TRIES - 1:
                raise
            now = get_same_node(kube, node)
            if now is None:
                return None
            node = now
    return node


def delete_pod(kube: Kube, namespace: str, name: str, *, uid: str, grace: int) -> None:
    """Delete a pod of a node that is being disrupted; `grace` in seconds. `Conflict` if another pod has the name by
    now.

    The label is set first: admission policies check the nodes only for pods with it, so that deletions by others cost
    nothing.
    """
    kube.patch(kinds.PODS, name, {"metadata": {"uid": uid, "labels": {LEAVING: "true"}}}, namespace=namespace)
    kube.delete(kinds.PODS, name, namespace=namespace, uid=uid, grace=grace)
