"""The pods of a plan: pending pods, except those for which in-flight capacity was launched.

A claim in flight has slots by pod class (its *assignment*). A slot is for any pending pod of the class, highest
priority first, then the oldest. A rollout that replaces pods while a node starts therefore neither leaves the node
empty nor requires another node.

The pods of a node that is being drained need another node, too, and are planned as if they had left. While the drain is
blocked, nobody knows when they leave. If a rule of another pod names them, they are not planned: the rule holds for
where they run.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.planning.inputs.snapshot import Snapshot
from joiner.pools import NodeClaim
from joiner.pools.retiring_nodes import find_blocked_drains, find_retiring_nodes


@dataclass(frozen=True, slots=True)
class PodsToPlace:
    """``pending`` pods need a node. ``reserved`` pods have a slot on an in-flight claim, by the claim's key."""

    pending: tuple[Pod, ...]
    reserved: Mapping[str, tuple[Pod, ...]]


def sort_by_priority(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods with highest priority first, then the oldest, then by name.

    The list is sorted by one key after the other, the last key first: most pods are equal in two of them, and
    comparing names alone is fast.
    """
    found = sorted(pods, key=attrgetter("key"))
    found.sort(key=attrgetter("created"))
    found.sort(key=attrgetter("constraints.priority"), reverse=True)
    return found


def nodes_of_claims(snapshot: Snapshot) -> Mapping[str, Node]:
    """Return the node of each claim that has joined, by the claim's key."""
    by_instance = {node.provider_id: node for node in snapshot.nodes if node.provider_id}
    by_name = {node.name: node for node in snapshot.nodes}
    found = {}
    for claim in snapshot.claims:
        node = by_instance.get(claim.provider_id) if claim.provider_id else by_name.get(claim.node_name)
        if node is not None:
            found[claim.key] = node
    return found


# As written by lifecycle.failed_claims. The reason is required, because a node that is starting also has status False.
GIVEN_UP: Final = (
    ("Registered", "RegistrationTimeout"),
    ("Registered", "NodeGone"),
    ("Initialized", "InitializationTimeout"),
)


def is_given_up(claim: NodeClaim) -> bool:
    """Return whether the claim failed: its node never joined, was deleted, or never accepted pods."""
    failed = {(condition.type, condition.reason) for condition in claim.conditions if condition.status == "False"}
    return any(each in failed for each in GIVEN_UP)


def is_in_flight(claim: NodeClaim, node: Node | None, snapshot: Snapshot) -> bool:
    """Return whether the slots of the claim still count: from the launch until its node accepts all pods."""
    if claim.deleting or is_given_up(claim) or not (claim.launched or claim.name in snapshot.entering):
        return False
    return node is None or (not node.retiring and (node.has_taint(names.FILLING) or not claim.initialized))


def placed_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods that have a node: bound pods, and pods nominated for a node where other pods are being
    preempted."""
    return tuple(
        pod
        for pod in snapshot.pods
        if (pod.node_name or (pod.nominated_node and not pod.deletion and not pod.gates)) and not pod.terminal
    )


def select_pods(snapshot: Snapshot) -> PodsToPlace:
    """Return the pending and the reserved pods, each sorted by priority, highest first."""
    nodes = nodes_of_claims(snapshot)
    leaving = find_retiring_nodes(snapshot.nodes, snapshot.claims)
    unplaced = [
        pod for pod in snapshot.pods if pod.provisionable or (leaving and pod.moves and pod.node_name in leaving)
    ]
    stays = {pod.key for pod in find_staying_pods(snapshot)}
    free = sort_by_priority(pod for pod in unplaced if pod.key not in stays) if stays else sort_by_priority(unplaced)
    queues: dict[str, list[Pod]] = defaultdict(list)
    # A slot is for a class: pods without a node come before those that still run on a node that is being drained
    for pod in sorted(free, key=lambda pod: bool(pod.node_name)) if snapshot.claims else ():
        queues[pod.class_key].append(pod)
    reserved: dict[str, tuple[Pod, ...]] = {}
    for claim in snapshot.claims:
        if not is_in_flight(claim, nodes.get(claim.key), snapshot):
            continue
        taken: list[Pod] = []
        for class_key, count in sorted(snapshot.assignments.get(claim.name, {}).items()):
            taken.extend(queues[class_key][:count])
            del queues[class_key][:count]
        reserved[claim.key] = tuple(taken)
    placed = {pod.key for pods in reserved.values() for pod in pods}
    pending = tuple(pod for pod in free if pod.key not in placed) if placed else tuple(free)
    return PodsToPlace(pending, reserved)


def find_staying_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods of nodes whose drain is blocked that would move and are not planned: a required rule of another
    unplaced pod names them, or their anti-affinity names another one.
    """
    leaving = find_retiring_nodes(snapshot.nodes, snapshot.claims)
    blocked = find_blocked_drains(snapshot.nodes, snapshot.claims) & leaving if leaving else ()
    if not blocked:
        return ()
    moving = [pod for pod in snapshot.pods if pod.moves and pod.node_name in leaving]
    others = [pod for pod in moving if pod.node_name not in blocked]
    others += [pod for pod in snapshot.pods if pod.provisionable]
    distinct = {_identity(pod): pod for pod in others}.values()
    there = [(pod, _identity(pod)) for pod in moving if pod.node_name in blocked]
    met = {key: any(_meet(pod, other) for other in distinct) for key, pod in {key: pod for pod, key in there}.items()}
    return tuple(pod for pod, key in there if met[key])


def _identity(pod: Pod) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    return pod.class_key, pod.namespace, tuple(sorted(pod.labels.items()))


def _meet(pod: Pod, other: Pod) -> bool:
    """Return whether a required rule of `other` names the labels of `pod`, or an anti-affinity of `pod` those of
    `other`. Namespaces of affinity terms are not compared: a pod that is wrongly taken as named only stays."""
    own = other.constraints
    selectors = [term.selector for term in (*own.affinity, *own.anti_affinity)]
    if pod.namespace == other.namespace:
        selectors += [spread.selector for spread in own.spreads if spread.hard]
    return any(selector.selects(pod.labels) for selector in selectors) or any(
        term.selector.selects(other.labels) for term in pod.constraints.anti_affinity
    )


def retiring_nodes(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of nodes that accept no more pods because they or their claims are being deleted, or have
    failed."""
    nodes = nodes_of_claims(snapshot)
    by_claim = {
        nodes[claim.key].name
        for claim in snapshot.claims
        if (claim.deleting or is_given_up(claim)) and claim.key in nodes
    }
    return frozenset({node.name for node in snapshot.nodes if node.retiring} | by_claim)
