"""Workloads of which a plan puts more than half on one new node, or in one zone, without their being asked to.

A workload asks for one zone or one node by its node selector, its node affinity, or its affinity to other pods.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joiner import names
from joiner.cluster import Pod
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.plan import PlannedNode

LEAST_PODS: Final = 2
MOST_WORKLOADS: Final = 5


@dataclass(slots=True)
class WorkloadPlaces:
    """Where the pods of one workload are: those on new nodes by node and with their zones, all of them by zone."""

    sample: Pod
    pods: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    new_zones: set[str] = field(default_factory=set)
    zones: Counter[str] = field(default_factory=Counter)


def find_concentrated_workloads(
    nodes: Sequence[PlannedNode], placed: Mapping[str, str], snapshot: Snapshot
) -> Iterator[str]:
    """Yield a sentence for each such workload; `placed` is the existing node of each pod that the plan puts on one."""
    several_zones = len({node.zone for node in nodes}) > 1
    found = []
    for workload, spread in sorted(_places(nodes, placed, snapshot).items()):
        if spread.pods < LEAST_PODS or not spread.nodes:
            continue
        name = _shown(*workload)
        node, on_node = spread.nodes.most_common(1)[0]
        zone, in_zone = spread.zones.most_common(1)[0]
        many_in_zone = several_zones and in_zone * 2 > spread.pods and zone in spread.new_zones
        if on_node * 2 > spread.pods and not asks_for_one(spread.sample, names.HOSTNAME):
            found.append(f"{on_node} of the {spread.pods} pods of {name} are on one new node, {node}")
        elif many_in_zone and not asks_for_one(spread.sample, names.ZONE):
            found.append(f"{in_zone} of the {spread.pods} pods of {name} are in the zone {zone}")
    yield from found[:MOST_WORKLOADS]
    if len(found) > MOST_WORKLOADS:
        yield f"so are the pods of {len(found) - MOST_WORKLOADS} other workloads, on one node or in one zone"


def asks_for_one(pod: Pod, key: str) -> bool:
    """Return whether a pod asks for one domain of a topology key (a zone, a host), for itself or beside other pods.

    >>> from joiner.cluster import PodConstraints, Requirements
    >>> chosen = PodConstraints(selector=Requirements.from_labels({names.ZONE: "eu-west-1a"}))
    >>> pod = Pod("default", "web", constraints=chosen)
    >>> asks_for_one(pod, names.ZONE), asks_for_one(Pod("default", "web"), names.ZONE)
    (True, False)
    """
    rules = pod.constraints
    keys = {key, names.HOSTNAME}
    beside = (*rules.affinity, *(one.term for one in rules.pod_preferences if not one.away))
    if any(term.topology_key in keys for term in beside):
        return True
    places = rules.on_new_nodes()
    if key == names.HOSTNAME or not places:
        return False
    values = {place.fixed().get(key) for place in places}
    return len(values) == 1 and None not in values


def _places(
    nodes: Sequence[PlannedNode], placed: Mapping[str, str], snapshot: Snapshot
) -> dict[tuple[str, str, str], WorkloadPlaces]:
    new = {pod: node for node in nodes for pod in node.pods}
    zones = {node.name: node.labels.get(names.ZONE, "") for node in snapshot.nodes}
    found: dict[tuple[str, str, str], WorkloadPlaces] = {}
    for pod in snapshot.pods:
        if not pod.owner_name or pod.terminal or pod.deletion:
            continue
        spread = found.setdefault((pod.namespace, pod.owner_kind, _workload(pod)), WorkloadPlaces(pod))
        spread.pods += 1
        if node := new.get(pod.key):
            spread.nodes[node.name] += 1
            spread.zones[node.zone] += 1
            spread.new_zones.add(node.zone)
        elif zone := zones.get(pod.node_name or placed.get(pod.key, ""), ""):
            spread.zones[zone] += 1
    return found


def _workload(pod: Pod) -> str:
    """Return the name of the pod's controller: of a Deployment, without the hash that its ReplicaSet has."""
    digest = pod.labels.get(names.POD_TEMPLATE_HASH, "")
    return pod.owner_name.removesuffix(f"-{digest}") if digest else pod.owner_name


def _shown(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{name}" if kind == "ReplicaSet" else f"{kind} {namespace}/{name}"
