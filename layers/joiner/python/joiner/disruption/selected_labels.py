"""The labels of nodes that decide which pods may move to them: those whose keys something in the cluster names.

Agents write labels that nothing selects, some of them again and again (the time of a scan, the health of a device). A
survey finds the same whatever their values are. Keys of Kubernetes, Karpenter, AWS and Joiner count without being
named: volumes, the scheduler's default constraints and prices depend on them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from joiner.cluster import Node, Pod
from joiner.cluster.pod_constraints import PodConstraints

KNOWN_DOMAINS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "amazonaws.com", "aws.com", "joiner.dev")

SELECTING: Final = (
    "nodepools",
    "provisioners",
    "daemonsets",
    "nodeoverlays",
    "storageclasses",
    "podtemplates",
    "deployments",
    "statefulsets",
    "replicasets",
)
"""Lists whose manifests name labels of nodes. Of workloads, a survey has those that CapacityBuffers name."""


def find_selected_labels(pods: Iterable[Pod], lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> frozenset[str]:
    """Return the keys of labels that the pods or the listed manifests name in selectors, affinity, requirements and
    topology."""
    found: set[str] = set()
    for constraints in {pod.class_key: pod.constraints for pod in pods}.values():
        found.update(_keys_of(constraints))
    for plural in SELECTING:
        for manifest in lists.get(plural) or ():
            found.update(_named_keys(manifest.get("spec") or manifest))
    return frozenset(found)


def list_selected_labels(node: Node, selected: Collection[str]) -> list[tuple[str, str]]:
    """Return the labels of the node with these keys, or with those that always count, in the order of their keys.

    >>> node = Node("a", labels={"disk": "ssd", "topology.kubernetes.io/zone": "b", "example.com/scanned-at": "7"})
    >>> list_selected_labels(node, {"disk"})
    [('disk', 'ssd'), ('topology.kubernetes.io/zone', 'b')]
    """
    return sorted((key, value) for key, value in node.labels.items() if key in selected or _is_known(key))


def _is_known(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == one or domain.endswith(f".{one}") for one in KNOWN_DOMAINS)


def _keys_of(constraints: PodConstraints) -> Iterable[str]:
    yield from constraints.selector
    for term in (*(constraints.terms or ()), *(one.term for one in constraints.preferences)):
        yield from term.labels
    for near in (*constraints.affinity, *constraints.anti_affinity, *(one.term for one in constraints.pod_preferences)):
        yield near.topology_key
    for spread in constraints.spreads:
        yield spread.topology_key


def _named_keys(manifest: Mapping[str, Any]) -> set[str]:
    """Return every key of a node selector, an expression or a topology in a manifest."""
    found: set[str] = set()
    pending: list[Any] = [manifest]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            found |= {str(part[name]) for name in ("key", "topologyKey") if name in part}
            found |= set(part.get("nodeSelector") or ())
            pending.extend(part.values())
        elif isinstance(part, list | tuple):
            pending.extend(part)
    return found
