"""Nodes as those who retire them need them: their pods, and changes of taints against many other writers."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube, Manifests
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.parallel import each
from joiner.cluster import Node

TRIES: Final = 5  # the kubelet, the node lifecycle controller and others write to the same list


def pods_on(kube: Kube, nodes: Collection[str]) -> dict[str, Manifests]:
    """The pods of each of these nodes. Raises if one list cannot be had: nothing is decided from a part."""
    found: dict[str, Manifests] = {}
    for name, answer in each(sorted(set(nodes)), lambda name: kube.list(kinds.PODS, fields=f"spec.nodeName={name}"), KubeError):
        if isinstance(answer, KubeError):
            raise answer
        found[name] = answer
    return found


def change(kube: Kube, node: Node, patch: Callable[[Node], Mapping[str, Any] | None]) -> Node | None:
    """The node after `patch`, which names the version that it was made from; None if the node is gone, or another one by now."""
    for attempt in range(TRIES):
        changes = patch(node)
        if changes is None:
            return node
        try:
            return Node.from_kube(kube.patch(kinds.NODES, node.name, changes))
        except NotFound:
            return None
        except Conflict:
            if attempt == TRIES - 1:
                raise
            try:
                now = Node.from_kube(kube.get(kinds.NODES, node.name))
            except NotFound:
                return None
            if now.uid != node.uid:
                return None
            node = now
    return node
