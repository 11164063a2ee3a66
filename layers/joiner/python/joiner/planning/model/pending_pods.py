"""The pods of a plan: pending pods, except those for which in-flight capacity was launched.

A claim in flight has slots by pod class (its *assignment*). A slot is for any pending pod of the class, highest
priority first, then the oldest. A rollout that replaces pods while a node starts therefore neither leaves the node
empty nor requires another node.

The pods of a node that is being drained need another node, too, and are planned as if they had left. While the drain is
blocked, nobody knows when they leave. They get their capacity all the same, and until then the rules of other pods
count them where they run (``pod_stages``).

The pods of a node that is only marked for disruption keep the slots of the replacements that no pending pod takes. They
get no other capacity: if a replacement fails, they stay.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.planning.inputs.snapshot import Snapshot
from joiner.pools import NodeClaim
from joiner.pools.retiring_nodes import find_blocked_drains, find_marked_nodes, find_retiring_nodes


@dataclass(frozen=True, slots=True)
class PodsToPlace:
    """``pending`` pods need a node. ``reserved`` pods have a slot on an in-flight claim, by the claim's key; of known
    slots, also on other nodes, by the key of the claim or else by the name of the node.
    ``blocked`` are the keys of those pods of both that run on a node whose drain may not evict all pods now, or that is
    only marked for disruption."""

    pending: tuple[Pod, ...]
    reserved: Mapping[str, tuple[Pod, ...]]
    blocked: frozenset[str] = frozenset()

    def of_host(self, host: str) -> tuple[Pod, ...]:
        """Return the pods with a slot on this claim or node."""
        return self.reserved.get(host, ())


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
    marked = find_marked_nodes(snapshot.nodes, snapshot.claims)
    unplaced = sort_by_priority(
        pod for pod in snapshot.pods if pod.provisionable or (leaving and pod.moves and pod.node_name in leaving)
    )
    staying = [pod for pod in snapshot.pods if pod.moves and pod.node_name in marked] if marked else []
    waiting_drains = find_blocked_drains(snapshot.nodes, snapshot.claims) & leaving if leaving else frozenset()
    blocked = frozenset(pod.key for pod in unplaced if pod.node_name in waiting_drains)
    queued = (*unplaced, *sort_by_priority(staying)) if snapshot.claims else ()
    if snapshot.slots is not None:
        found = {pod.key: pod for pod in queued}
        reserved = {host: tuple(found[key] for key in mine if key in found) for host, mine in snapshot.slots.items()}
    else:
        # Pods without a node come before those for which DISRUPT launched it, and those before pods that run on a node
        # that is being drained
        ranked = sorted(queued, key=lambda pod: (bool(pod.node_name), pod.node_name not in marked, pod.key in blocked))
        in_flight = [claim for claim in snapshot.claims if is_in_flight(claim, nodes.get(claim.key), snapshot)]
        reserved = _take_slots(snapshot, in_flight, ranked)
    placed = {pod.key for pods in reserved.values() for pod in pods}
    pending = tuple(pod for pod in unplaced if pod.key not in placed) if placed else tuple(unplaced)
    return PodsToPlace(pending, reserved, blocked | placed.intersection(pod.key for pod in staying))


def _take_slots(
    snapshot: Snapshot, in_flight: Iterable[NodeClaim], queued: Iterable[Pod]
) -> dict[str, tuple[Pod, ...]]:
    """Return the pods that take the slots of each claim, by its key: a slot is for a class, the first pods get it."""
    queues: dict[str, list[Pod]] = defaultdict(list)
    for pod in queued:
        queues[pod.class_key].append(pod)
    reserved: dict[str, tuple[Pod, ...]] = {}
    for claim in in_flight:
        taken: list[Pod] = []
        for class_key, count in sorted(snapshot.assignments.get(claim.name, {}).items()):
            taken.extend(queues[class_key][:count])
            del queues[class_key][:count]
        reserved[claim.key] = tuple(taken)
    return reserved


def with_known_slots(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot in which the pods that have a slot now keep it, whatever other pods are pending on trial."""
    if snapshot.slots is not None:
        return snapshot
    if not snapshot.assignments:
        return replace(snapshot, slots={})
    reserved = select_pods(snapshot).reserved
    return replace(snapshot, slots={claim: tuple(pod.key for pod in pods) for claim, pods in reserved.items()})


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
