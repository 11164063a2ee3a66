"""Existing nodes and in-flight claims, and how much of the limits and ceilings both use."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from joiner import names
from joiner.catalogue import Catalogue, compute_allocatable, compute_capacity
from joiner.catalogue.commitments import Coverage
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Node, Pod, Resources, Taint, Volumes
from joiner.cluster.requirements import RENAMED
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_labels import node_labels
from joiner.planning.model.node_offers import commitment_key
from joiner.planning.model.pending_pods import (
    PodsToPlace,
    is_in_flight,
    nodes_of_claims,
    placed_pods,
    retiring_nodes,
)
from joiner.planning.model.pod_groups import PodGroup, PodGroups
from joiner.planning.model.running_commitments import cover_running_nodes
from joiner.planning.model.volume_constraints import attachable_by_type, node_amount
from joiner.planning.state.node_state import NodeState, attach_volume
from joiner.pools import NodeClaim, NodePool, ResolvedNodeClass
from joiner.pools.node_pool import pool_key_of
from joiner.pools.retiring_nodes import find_marked_nodes

EPHEMERAL_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    names.UNREGISTERED,
    names.FILLING,
)
"""Taints that are removed automatically while a node joins (Karpenter's list, and Joiner's own)."""
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class ExistingCapacity:
    """Existing nodes and claims. ``used`` counts, by pool key, the capacity and the nodes that count against limits.
    ``staying`` counts the nodes that are not being removed. ``price`` is the price of all nodes that Joiner
    manages, in $/h. ``drawn`` is what all nodes use of commitments, in units."""

    node_states: tuple[NodeState, ...]
    used: Mapping[str, Mapping[str, int]]
    nodes: int
    price: float
    staying: Mapping[str, int] = field(default_factory=dict)
    drawn: Mapping[tuple[str, ...], int] = field(default_factory=dict)


def find_existing_capacity(
    snapshot: Snapshot,
    catalogue: Catalogue,
    groups: PodGroups,
    waiting: PodsToPlace,
    *,
    classes: Mapping[str, ResolvedNodeClass],
) -> ExistingCapacity:
    """Return the nodes in the order in which they are filled: nodes that accept pods, nodes that are joining, claims;
    each sorted by name."""
    joined = nodes_of_claims(snapshot)
    claims = {joined[claim.key].name: claim for claim in snapshot.claims if claim.key in joined}
    leaving = retiring_nodes(snapshot)
    on_node = _placed_by_node(snapshot, waiting)
    found: list[tuple[tuple[int, str], NodeState]] = []
    attachable = attachable_by_type(snapshot.nodes, snapshot.volumes)
    for node in snapshot.nodes:
        if node.name in leaving:
            found.extend(((3, node.name), one) for one in _closed(node, on_node.get(node.name, ()), groups, snapshot))
        else:
            claim = claims.get(node.name)
            type_limits = attachable.get(claim.instance_type, {}) if claim and not claim.initialized else {}
            node_state = _state_of_node(
                node, claim, on_node.get(node.name, []), groups, snapshot.volumes, type_limits=type_limits
            )
            _reserve(node_state, waiting.of_host(claim.key if claim else node.name), groups, snapshot.volumes)
            found.append(((1 if claim and not claim.initialized else 0, node.name), node_state))
    pools = {pool.key: pool for pool in snapshot.pools}
    for claim in snapshot.claims:
        if claim.key not in joined and is_in_flight(claim, None, snapshot):
            type_limits = attachable.get(claim.instance_type, {})
            node_state = _state_of_claim(
                claim, pools.get(claim.pool_key), snapshot, catalogue, groups, type_limits=type_limits
            )
            _reserve(node_state, waiting.of_host(claim.key), groups, snapshot.volumes)
            found.append(((2, claim.name), node_state))
    _close_unwritten((node_state for _, node_state in found), snapshot.unwritten)
    coverage = cover_running_nodes(snapshot, catalogue.commitments)
    used, number, price = _usage(snapshot, joined, catalogue, classes, coverage)
    node_states = tuple(node_state for _, node_state in sorted(found, key=lambda one: one[0]))
    drawn = {commitment_key(commitment): units for commitment, units in coverage.used.items()}
    return ExistingCapacity(node_states, used, number, price, _staying(snapshot, joined, leaving), drawn)


def _close_unwritten(node_states: Iterable[NodeState], unwritten: Collection[str]) -> None:
    """Leave no room on the nodes of these claims but what is reserved there."""
    for node_state in node_states:
        if node_state.claim_name in unwritten:
            node_state.free = [0] * len(node_state.free)


def _placed_by_node(snapshot: Snapshot, waiting: PodsToPlace) -> dict[str, list[Pod]]:
    """Return the pods that have a node, by its name, without those that the plan moves or has a slot for elsewhere.
    Pods of blocked drains are where they run."""
    moved = {pod.key for pods in (waiting.pending, *waiting.reserved.values()) for pod in pods if pod.node_name}
    moved -= waiting.blocked
    found: dict[str, list[Pod]] = {}
    for pod in placed_pods(snapshot):
        if pod.key not in moved:
            found.setdefault(pod.node_name or pod.nominated_node, []).append(pod)
    return found


def _closed(node: Node, pods: Sequence[Pod], groups: PodGroups, snapshot: Snapshot) -> list[NodeState]:
    """Return the state of a node that takes no more pods, if pods run there that this plan does not move: the rules of
    others count them."""
    if all(pod.stays_with_node or pod.deletion for pod in pods):
        return []
    node_state = _state_of_node(node, None, pods, groups, snapshot.volumes, type_limits={})
    node_state.free = [0] * len(groups.resources)
    node_state.closing = True
    return [node_state]


def _staying(snapshot: Snapshot, joined: Mapping[str, Node], leaving: Collection[str]) -> dict[str, int]:
    """Count, by pool key, the nodes that stay and the claims that become nodes. Of nodes that are marked for
    disruption, those stay for which no node is in flight."""
    found, kept = Counter[str](), Counter[str]()
    with_claim = {node.name for node in joined.values()}
    marked = find_marked_nodes(snapshot.nodes, snapshot.claims)
    for claim in snapshot.claims:
        node = joined.get(claim.key)
        if node.name not in leaving if node else is_in_flight(claim, None, snapshot):
            found[claim.pool_key] += 1
            kept[claim.pool_key] -= not claim.initialized
        elif node and node.name in marked:
            kept[claim.pool_key] += 1
    found += +kept
    found.update(
        pool_key_of(node) for node in snapshot.nodes if node.name not in with_claim and node.name not in leaving
    )
    return dict(found)


def _state_of_node(
    node: Node,
    claim: NodeClaim | None,
    pods: Sequence[Pod],
    groups: PodGroups,
    volumes: Volumes,
    *,
    type_limits: Mapping[str, int],
) -> NodeState:
    joining = claim is not None and not claim.initialized
    known = node.allocatable
    if claim is not None and joining:  # A node that has just joined does not yet report all of its capacity.
        known = Resources({**_expected(claim), **{name: amount for name, amount in node.allocatable.items() if amount}})
    taints = tuple(taint for taint in node.taints if not (claim and _passes(taint, claim)))
    attachable = {**type_limits, **volumes.limits.get(node.name, {})}
    node_state = NodeState(
        name=node.name,
        labels={
            **(claim.labels if claim and joining else {}),
            names.HOSTNAME: node.name,
            **_with_new_names(node.labels),
        },
        taints=(*taints, UNSCHEDULABLE) if node.unschedulable else taints,
        free=[node_amount(name, known, attachable) for name in groups.resources],
        node_name=node.name,
        claim_name=claim.name if claim else "",
        occupied=any(not pod.stays_with_node for pod in pods),
    )
    for pod in pods:
        _hold(node_state, pod, groups.of_pod[pod.key], groups, volumes)
    present = {(pod.namespace, pod.owner_name) for pod in pods if pod.owner_kind == "DaemonSet"}
    for daemon, own in groups.daemons:
        missing = (daemon.namespace, daemon.name) not in present
        if missing and daemon.runs_on(node_state.labels, node_state.taints, node.name):
            _occupy(node_state, own.vector)
            node_state.held[own] = node_state.held.get(own, 0) + 1
            node_state.ports.extend(own.constraints.host_ports)
    return node_state


def _expected(claim: NodeClaim) -> Resources:
    """Return what a node will be able to allocate when it is initialized: the allocatable resources of its claim, and
    of devices that only a NodeOverlay gives its type, those that the claim requests."""
    return Resources({**claim.requests, **claim.allocatable})


def _with_new_names(labels: Mapping[str, str]) -> dict[str, str]:
    """Add the current name of each label that the node has only under its deprecated name."""
    return {**{new: labels[old] for old, new in RENAMED.items() if old in labels}, **labels}


def _passes(taint: Taint, claim: NodeClaim) -> bool:
    """Return whether a taint is removed automatically before the node accepts pods. This is true of all startup taints
    until the node is initialized."""
    if taint.key == names.FILLING:
        return True
    if claim.initialized:
        return False
    return (
        taint.key in EPHEMERAL_TAINTS
        or taint.key.startswith(names.READINESS_PREFIX)
        or any(taint.matches(one) for one in claim.startup_taints)
    )


def _state_of_claim(
    claim: NodeClaim,
    pool: NodePool | None,
    snapshot: Snapshot,
    catalogue: Catalogue,
    groups: PodGroups,
    *,
    type_limits: Mapping[str, int],
) -> NodeState:
    """Return a node that has not joined. While its instance type is unknown (the launch has no answer yet), it has
    the capacity that its claim requests: for its own pods, virtual ones included, and its daemon pods.
    ``type_limits`` is how many volumes a node of its type can attach, by driver."""
    known = catalogue.types.get(claim.instance_type)
    labels: Mapping[str, str] = {**claim.requirements.fixed(), **claim.labels}
    can = _expected(claim) if claim.launched else claim.requests
    if known is not None and pool is not None:
        node_class = snapshot.node_class(pool)
        labels = {**node_labels(pool, node_class, known, claim.zone, claim.capacity_type), **labels}
        if claim.launched and not claim.allocatable:
            allocatable = compute_allocatable(known, node_class, pool, efa=bool(claim.requests.get(EFA, 0)))
            can = _expected(replace(claim, allocatable=allocatable))
    name = f"{claim.kind}/{claim.name}"
    node_state = NodeState(
        name=name,
        labels={**labels, names.HOSTNAME: name},
        taints=claim.taints,
        free=[node_amount(resource, can, type_limits) for resource in groups.resources],
        claim_name=claim.name,
    )
    for daemon, own in groups.daemons:
        if daemon.runs_on(node_state.labels, node_state.taints):
            _occupy(node_state, own.vector)
            node_state.held[own] = 1
            node_state.ports.extend(own.constraints.host_ports)
    return node_state


def _reserve(node_state: NodeState, pods: Iterable[Pod], groups: PodGroups, volumes: Volumes) -> None:
    """Reserve on the node what an assignment keeps for pods that are not bound yet."""
    for pod in pods:
        node_state.occupied = True
        _hold(node_state, pod, groups.of_reserved[pod.key], groups, volumes)


def _hold(node_state: NodeState, pod: Pod, own: PodGroup, groups: PodGroups, volumes: Volumes) -> None:
    """Count a pod of this group that is bound to the node. A terminating pod uses its resources until it is deleted,
    and no rule counts it."""
    if groups.drivers:  # the vector of a group counts its volumes, too
        _occupy(node_state, tuple(pod.requests.get(name, 0) for name in groups.resources))
    else:
        _occupy(node_state, own.vector)
    for driver, volume in (
        volumes.limited(pod.namespace, pod.constraints.volume_claims)
        if groups.drivers and pod.constraints.volume_claims
        else ()
    ):
        if driver in groups.drivers:
            attach_volume(node_state, (groups.drivers[driver], volume), 1)
    node_state.ports.extend(pod.constraints.host_ports)
    if not pod.deletion:
        node_state.held[own] = node_state.held.get(own, 0) + 1


def _occupy(node_state: NodeState, vector: Sequence[int]) -> None:
    for position, amount in enumerate(vector):
        node_state.free[position] -= amount


def _usage(
    snapshot: Snapshot,
    joined: Mapping[str, Node],
    catalogue: Catalogue,
    classes: Mapping[str, ResolvedNodeClass],
    coverage: Coverage,
) -> tuple[dict[str, dict[str, int]], int, float]:
    used: dict[str, dict[str, int]] = {}
    pools = {pool.key: pool for pool in snapshot.pools}
    number, price, prices = 0, 0.0, NodePrices(catalogue, pools, classes, snapshot.overlays, coverage)
    with_claim = {node.name for node in joined.values()}
    ours: list[tuple[str, str, Mapping[str, str], Resources]] = []
    for claim in snapshot.claims:
        node = joined.get(claim.key)
        if not (node or claim.launched or claim.deleting or claim.name in snapshot.entering):
            # The holder that wrote this claim has ended. The claim is deleted without a launch before any part of this
            # plan is written.
            continue
        has = (node.capacity if node else None) or claim.capacity or _capacity(claim, pools, snapshot, catalogue)
        ours.append((node.name if node else claim.key, claim.pool_key, claim.labels, has))
    for one in snapshot.nodes:
        key = pool_key_of(one)
        if one.name not in with_claim and key in pools:
            ours.append((one.name, key, one.labels, one.capacity))
    for machine, key, labels, has in ours:
        counted = used.setdefault(key, {"nodes": 0})
        counted["nodes"] += 1
        for resource, amount in has.items():
            counted[resource] = counted.get(resource, 0) + amount
        number += 1
        price += prices.of(labels, key, machine)
    return used, number, price


def _capacity(claim: NodeClaim, pools: Mapping[str, NodePool], snapshot: Snapshot, catalogue: Catalogue) -> Resources:
    known, pool = catalogue.types.get(claim.instance_type), pools.get(claim.pool_key)
    return compute_capacity(known, snapshot.node_class(pool), pool) if known and pool else claim.requests
