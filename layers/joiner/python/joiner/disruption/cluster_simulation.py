"""A cluster in which nodes are removed on trial: their pods are placed elsewhere by every rule of the scheduler.

The simulation is the planner's own state. The pods of all candidates are pending in it and placed on their own nodes,
so that they can move. An attempt that fails is undone. The node of each pod is recorded, because an action says where
its pods go.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np

from joiner.catalogue import Catalogue
from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Pod
from joiner.cluster.resources import CPU, MEMORY
from joiner.disruption.disruption_candidates import Candidate, CandidateSearch
from joiner.planning import Ceilings, Offer, PlanPolicies, Snapshot
from joiner.planning.arrays import Floats, Marks
from joiner.planning.effort import Effort, Meter
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pending_pods import with_known_slots
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.address_limits import fill_other_zones, find_full_zones, limit_addresses
from joiner.planning.planner import Planner
from joiner.planning.search import fill_existing_nodes, propose_and_realize
from joiner.planning.state.excluded_types import excluded_types, only_opened
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.pools import ResolvedNodeClass
from joiner.pools.retiring_nodes import find_marked_nodes

CLOSED: Final = -(1 << 62)
"""Free capacity of a node that receives no pods."""
IMBALANCE: Final = 0.3
"""The weight of unbalanced free CPU and memory when the node that fits best is chosen."""

Contents = dict[PodGroup, list[str]]
"""Keys of pods by their group."""


@dataclass(frozen=True, slots=True)
class PlannerArguments:
    """What a simulation needs besides the snapshot: the arguments of ``joiner.planning.plan``."""

    catalogue: Catalogue
    unavailable: frozenset[tuple[str, str, str]]
    classes: Mapping[str, ResolvedNodeClass]
    ceilings: Ceilings
    policies: PlanPolicies = field(default_factory=PlanPolicies)
    planner: Planner = field(default_factory=Planner)
    pending: dict[str, Pod] = field(default_factory=dict, compare=False)
    """Pods of the snapshot as they would wait for a node, by key. Each is made once, for all states of a proposal."""

    def unbound(self, snapshot: Snapshot, moving: Collection[str]) -> Snapshot:
        """Return the snapshot with these pods (by key) pending, and those on nodes that are marked already, whose
        places no other pod may take.

        Slots on in-flight claims are open to any pending pod of their class, so a pod that may move would take one from
        a pod that waits. The pods that have a slot now keep it: waiting pods, and those of marked nodes.
        """
        snapshot = with_known_slots(snapshot)
        if promised := find_promised_pods(snapshot):
            moving = {*moving, *promised}
        for pod in snapshot.pods:
            if pod.key in moving and pod.key not in self.pending:
                self.pending[pod.key] = as_pending(pod)
        pods = tuple(self.pending[pod.key] if pod.key in moving else pod for pod in snapshot.pods)
        return replace(snapshot, pods=pods)

    def state(self, snapshot: Snapshot) -> PlanState:
        """Return the planner's state of the snapshot, with no pod placed.

        It refuses new nodes for which a subnet has no free address. Those of removed nodes are not free: they run until
        their replacements do.
        """
        state = self.planner.state(
            snapshot,
            self.catalogue,
            self.unavailable,
            classes=self.classes,
            ceilings=self.ceilings,
            policies=self.policies,
        )
        limit_addresses(state, self.classes)
        return state

    def prices(self, snapshot: Snapshot) -> NodePrices:
        """Return the prices of the snapshot's running nodes."""
        return self.planner.prices(snapshot, self.catalogue, classes=self.classes)


def find_promised_pods(snapshot: Snapshot) -> frozenset[str]:
    """Return the keys of the pods that another disruption will move, without those that are known to have a slot."""
    if not (marked := find_marked_nodes(snapshot.nodes, snapshot.claims)):
        return marked
    slotted = frozenset(chain.from_iterable((snapshot.slots or {}).values()))
    return frozenset(pod.key for pod in snapshot.pods if pod.moves and pod.node_name in marked) - slotted


def as_pending(pod: Pod) -> Pod:
    """Return the pod as it would wait for a node, found unschedulable, if it did not run."""
    # Of every pod that may move: dataclasses.replace, which reads all fields by name, takes more than twice as long
    return Pod(
        pod.namespace,
        pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        labels=pod.labels,
        constraints=pod.constraints,
        created=pod.created,
        owner_kind=pod.owner_kind,
        owner_name=pod.owner_name,
        owner_uid=pod.owner_uid,
        unschedulable="",
        protection=pod.protection,
        started=pod.started,
        ready=pod.ready,
        deletion_cost=pod.deletion_cost,
        leaves_by_rollout=pod.leaves_by_rollout,
        claimed=pod.claimed,
        grace_seconds=pod.grace_seconds,
    )


class ClusterSimulation:
    """The cluster while nodes are removed one after the other.

    ``evict`` takes the pods off nodes and closes the nodes. ``place_on_existing`` and ``pack_on_new`` place them.
    ``commit`` keeps everything since the last commit; ``roll_back`` undoes it.
    """

    def __init__(self, snapshot: Snapshot, found: CandidateSearch, world: PlannerArguments) -> None:
        moving = {pod.key for one in found.candidates for pod in one.pods}
        self.state = world.state(world.unbound(snapshot, moving))
        self._nodes = {node.node_name: node for node in self.state.existing if node.node_name}
        self._index = {id(node): number for number, node in enumerate(self.state.existing)}
        self._group_of = {pod.key: group for group in self.state.groups.pending for pod in group.pods}
        self.contents: dict[NodeState, Contents] = defaultdict(dict)
        for one in found.candidates:
            self._put_home(one)
        self.nominated, self.promised, self.buffered = self._place_waiting_pods(find_promised_pods(snapshot))
        self._free: Floats = np.array([node.free for node in self.state.existing], float).reshape(
            len(self.state.existing), len(self.state.groups.resources)
        )
        self._open: Marks = np.array(
            [node.node_name not in found.settling and bool(node.node_name) for node in self.state.existing]
        )
        for node in self.state.existing:
            if not self._open[self._index[id(node)]]:
                node.free = [amount + CLOSED for amount in node.free]
        self._scale = self._resource_scale()
        self._moves: list[tuple[PodGroup, NodeState | None, NodeState | None, list[str]]] = []
        self._closed: list[NodeState] = []
        self._abandoned: list[NodeState] = []

    def _put_home(self, candidate: Candidate) -> None:
        """Place the pods of a candidate on their own node. They are there, so no rule is checked."""
        node = self._nodes[candidate.node.name]
        for pod in candidate.pods:
            group = self._group_of[pod.key]
            self.state.take(group, node, -1)
            self.contents[node].setdefault(group, []).append(pod.key)

    def _place_waiting_pods(self, leaving: frozenset[str]) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Place pods that wait for a node, pods `leaving` marked nodes (keys), and capacity buffers on existing nodes;
        return the nodes of each kind.

        Pods that no existing node can hold need new nodes, whatever consolidation does.
        """
        state = self.state
        waiting = [group for group in state.groups.pending if state.left[group]]
        nominated: set[str] = set()
        promised: set[str] = set()
        buffered: set[str] = set()
        if waiting:
            before = {node: dict(node.planned) for node in state.existing}
            fill_existing_nodes(state, [group for group in waiting if not group.refused])
            for node in state.existing:
                for group, number in node.planned.items():
                    came = number - before[node].get(group, 0)
                    if came:
                        keys = self._waiting_keys(group)[:came]
                        self.contents[node].setdefault(group, []).extend(keys)
                        own = promised if leaving.issuperset(keys) else nominated
                        (buffered if group.is_buffer else own).add(node.node_name)
            for group in waiting:
                state.left[group] = 0
        return frozenset(nominated), frozenset(promised), frozenset(buffered)

    def _waiting_keys(self, group: PodGroup) -> list[str]:
        placed = {key for inside in self.contents.values() for key in inside.get(group, ())}
        return [pod.key for pod in group.pods if pod.key not in placed]

    def _resource_scale(self) -> Floats:
        """Return the inverse of the mean allocatable CPU and memory, for sizes that can be compared."""
        columns = [
            self.state.groups.resources.index(name) for name in (CPU, MEMORY) if name in self.state.groups.resources
        ]
        scale = np.zeros(len(self.state.groups.resources))
        for column in columns:
            held = self._free[:, column]
            scale[column] = 1.0 / max(float(np.abs(held).max(initial=1.0)), 1.0)
        return scale

    def pods_on(self, node: str) -> list[str]:
        """Return the keys of the pods on a node that can move."""
        return self.pods_of(self._nodes[node])

    def node_of(self, name: str) -> NodeState:
        """Return the existing node with this name."""
        return self._nodes[name]

    def pods_of(self, node: NodeState) -> list[str]:
        """Return the keys of the pods on a node, existing or new, that can move."""
        return [key for keys in self.contents[node].values() for key in keys]

    def contents_of(self, node: str) -> tuple[tuple[int, int], ...]:
        """Return the number of pods on a node that can move, by the index of their group."""
        return tuple(sorted((group.index, len(keys)) for group, keys in self.contents[self._nodes[node]].items()))

    def group_of(self, pod: str) -> PodGroup:
        """Return the group of a pod that can move, by its key."""
        return self._group_of[pod]

    def size(self, group: PodGroup) -> float:
        """Return the larger share of CPU and memory that a pod uses."""
        return float((np.array(group.vector, float) * self._scale).max(initial=0.0))

    def evict(self, nodes: Sequence[str], opened: Sequence[NodeState] = ()) -> Contents:
        """Take all pods off these nodes and off these new nodes of earlier commits; close all of them; return the
        pods."""
        displaced: Contents = {}
        there = [self._nodes[name] for name in nodes]
        for node in (*there, *opened):
            for group, keys in list(self.contents[node].items()):
                self.state.take(group, node, len(keys))
                self._record(group, node, None, keys)
                displaced.setdefault(group, []).extend(keys)
        for node in there:
            self._shut(node)
        self.state.release_kept_nodes(opened)
        for node in opened:
            self.state.close(node)
            self._abandoned.append(node)
        return displaced

    def _shut(self, node: NodeState) -> None:
        node.free = [amount + CLOSED for amount in node.free]
        self._closed.append(node)
        self._open[self._index[id(node)]] = False

    def place_on_existing(self, displaced: Contents) -> Contents:
        """Place pods on existing nodes, each where it fits best, the largest first; return the pods that are left."""
        left: Contents = {}
        for group in sorted(displaced, key=lambda one: (-self.size(one), one.index)):
            keys = displaced[group]
            for number in self._by_fit(group):
                if not keys:
                    break
                node = self.state.existing[number]
                came = self.state.put(group, node, len(keys))
                if came:
                    self._record(group, None, node, keys[:came])
                    keys = keys[came:]
            if keys:
                left[group] = keys
        return left

    def _by_fit(self, group: PodGroup) -> list[int]:
        """Return the positions of existing nodes with free resources for a pod, the one that fits best first."""
        vector = np.array(group.vector, float)
        fitting = np.flatnonzero(self._open & (self._free >= vector).all(axis=1))
        if not len(fitting):
            return []
        rest = (self._free[fitting] - vector) * self._scale
        large = rest.max(axis=1)
        score = large + IMBALANCE * (2 * large - rest.sum(axis=1))
        positions: list[int] = fitting[np.argsort(score, kind="stable")].tolist()
        return positions

    def open_node(self, choice: OfferChoice, displaced: Contents) -> NodeState | None:
        """Open one new node for all of these pods; return None, with everything as before, if it cannot hold them."""
        if self.state.over_limit(choice) is not None:
            return None
        node = self.state.open(choice)
        placed = []
        for group, keys in displaced.items():
            came = self.state.put(group, node, len(keys))
            if came < len(keys):
                self.state.close(node)
                return None
            placed.append((group, keys))
        for group, keys in placed:
            self._record(group, None, node, keys)
        return node

    def cheaper_offers(self, node: NodeState, choice: OfferChoice, price: float) -> list[Offer]:
        """Return the offers of the same capacity type that hold the pods of a new node and cost less than ``price``.

        Those in other zones need an address there.
        """
        full = find_full_zones(self.state).get(choice.pool_offers.pool.key, frozenset()) - {choice.one.offering.zone}
        need = [before - after for before, after in zip(choice.one.free, node.free, strict=True)]
        open_to = choice.variant.common_to(group.index for group in node.planned)
        return [
            one.offer
            for one in self.state.replacement_offers(choice, node.planned)
            if (open_to >> one.index & 1 or choice.pool_offers.pool.min_values)
            and one.offer.capacity_type == choice.one.offer.capacity_type
            and one.offer.price_per_hour < price
            and one.offering.zone not in full
            and all(amount <= there for amount, there in zip(need, one.free, strict=True))
        ]

    def pack_on_new(self, displaced: Contents, effort: Effort, *, without: Collection[str]) -> bool:
        """Pack pods on new nodes with the planner, ``without`` these instance types; return whether all are placed."""
        state = self.state
        before = {node: dict(node.planned) for node in state.existing}
        with only_opened(state), excluded_types(state, without, find_full_zones(state)):
            propose_and_realize(state, Meter(effort), effort.seed)
            state.quotas.clear()
            if state.pods_left and find_full_zones(state):
                fill_other_zones(state)
        waiting = {group: list(keys) for group, keys in displaced.items()}
        for node in (*state.existing, *state.new):
            for group, number in list(node.planned.items()):
                came = number - before.get(node, {}).get(group, 0)
                if came > 0:
                    self._record(group, None, node, waiting[group][:came])
                    waiting[group] = waiting[group][came:]
        return not any(waiting.values())

    def _record(self, group: PodGroup, source: NodeState | None, target: NodeState | None, keys: list[str]) -> None:
        """Record a move that the state has made. From a source, all pods of the group move."""
        if source is not None:
            del self.contents[source][group]
            self._refresh(source)
        if target is not None:
            self.contents[target].setdefault(group, []).extend(keys)
            self._refresh(target)
        self._moves.append((group, source, target, keys))

    def _refresh(self, node: NodeState) -> None:
        number = self._index.get(id(node))
        if number is not None:
            self._free[number] = node.free

    def commit(self) -> list[NodeState]:
        """Keep everything since the last commit; return the new nodes. They receive no further pods."""
        self._moves.clear()
        self._closed.clear()
        self._abandoned.clear()
        return self.state.keep_new_nodes()

    def roll_back(self) -> None:
        """Undo everything since the last commit."""
        for node in self._closed:
            node.free = [amount - CLOSED for amount in node.free]
            self._open[self._index[id(node)]] = True
        self._closed.clear()
        for group, source, target, keys in reversed(self._moves):
            if target is not None:
                self.state.take(group, target, len(keys))
                there = self.contents[target][group]
                del there[len(there) - len(keys) :]
                if not there:
                    del self.contents[target][group]
                self._refresh(target)
            if source is not None:
                self.state.take(group, source, -len(keys))
                self.contents[source][group] = list(keys)
                self._refresh(source)
        self._moves.clear()
        for node in list(self.state.new):
            self.state.close(node)
            self.contents.pop(node, None)
        for node in self._abandoned:
            self.state.reopen(node)
        self._abandoned.clear()
        self.state.keep_new_nodes()
        for group in self.state.left:
            self.state.left[group] = 0

    def place_of(self) -> dict[str, NodeState]:
        """Return the node of each pod that can move, by the pod's key."""
        return {key: node for node, inside in self.contents.items() for keys in inside.values() for key in keys}
