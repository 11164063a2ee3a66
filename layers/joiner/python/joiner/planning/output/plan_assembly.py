"""Write the plan as a value: names of nodes, slots, requirements, alternatives."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from joiner import names
from joiner.cluster import Requirement, Requirements, Resources, ValueSet, mix_workloads
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import OfferChoice, meets_min_values
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.output.alternatives import OfferAlternatives
from joiner.planning.placement.address_limits import find_closed_zones
from joiner.planning.plan import ExistingNode, Offer, PendingPod, Plan, PlannedNode, Reason
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.pools import ResolvedNodeClass

NO_CLASSES: Final[Mapping[str, ResolvedNodeClass]] = {}
NO_ZONES: Final[Mapping[NodeState, frozenset[str]]] = {}


def write_plan(
    state: PlanState,
    snapshot: Snapshot,
    reasons: Mapping[PodGroup, tuple[Reason, ...]],
    proven: float,
    *,
    zonal: bool = False,
    classes: Mapping[str, ResolvedNodeClass] = NO_CLASSES,
) -> Plan:
    """Return the plan as a value. Slots are assigned to a group's pods in their order: highest priority first.
    ``zonal`` leaves on-demand nodes in their zones. The subnets of ``classes`` have addresses for every node in each
    zone in which EC2 may launch it."""
    slots = PodSlots(state)
    existing = []
    for node in state.existing:
        if node.planned and not node.made:
            pods = slots.take(_contents(node))
            existing.append(ExistingNode(node.node_name, node.claim_name, pods, slots.by_class(node, pods)))
    numbers: dict[str, int] = {}
    ordered = _in_order((*(node for node in state.existing if node.made), *state.new))
    alternatives = OfferAlternatives(state, zonal=zonal)
    closed = find_closed_zones(classes, [(node, choice) for node, choice, _ in ordered], alternatives.other_zones)
    writer = NodeWriter(state, slots, alternatives=alternatives, closed=closed)
    nodes = []
    for node, choice, contents in ordered:
        _, _, pool = choice.pool_offers.pool.key.partition("/")
        numbers[pool] = numbers.get(pool, 0) + 1
        nodes.append(writer.node(node, choice, contents, f"{pool}-{numbers[pool]}"))
    pending = sorted((pod, reasons[state.groups.all[index]]) for index, pod in slots.left())
    return Plan(
        nodes=tuple(nodes),
        existing=tuple(existing),
        pending=tuple(PendingPod(pod, why) for pod, why in pending),
        unlaunched=state.unlaunched,
        lower_bound_per_hour=round(float(proven), 10),
        problems=snapshot.problems,
    )


Contents = list[tuple[int, int, int]]
"""The pods of a node: priority (highest first), index and number of pods of each group."""


def _contents(node: NodeState) -> Contents:
    return sorted([(-group.constraints.priority, group.index, number) for group, number in node.planned.items()])


def _in_order(nodes: Iterable[NodeState]) -> list[tuple[NodeState, OfferChoice, Contents]]:
    """Return the nodes sorted by pool and offer, then by their pods, so that equal nodes always have the same order."""
    found = [(node, choice, _contents(node)) for node in nodes if (choice := node.choice or node.made)]
    kinds = {choice: _kind(choice) for choice in dict.fromkeys(choice for _, choice, _ in found)}
    ranks: dict[OfferChoice, int] = {}
    for choice, kind in sorted(kinds.items(), key=lambda one: one[1]):
        before = next(reversed(ranks), choice)
        ranks[choice] = ranks.get(before, 0) + (kinds[before] != kind)
    return sorted(found, key=lambda one: (ranks[one[1]], one[2]))


def _kind(choice: OfferChoice) -> tuple[object, ...]:
    pool = choice.pool_offers.pool
    return (-pool.weight, pool.key, choice.one.offer, sorted(choice.variant.labels.items()))


def _in_turn(group: PodGroup, left: int) -> list[str]:
    """Return the pods of a group in the order in which nodes get them; the last ones are `left` without a node."""
    placed = len(group.pods) - left
    return [pod.key for pod in (*mix_workloads(group.pods[:placed]), *group.pods[placed:])]


class PodSlots:
    """Assigns the pods of each group to their nodes: the first pods have a node, and each node about the same share of
    each workload. Pods are identified by their keys."""

    def __init__(self, state: PlanState) -> None:
        self._queues = {group.index: iter(_in_turn(group, left)) for group, left in state.left.items()}
        self._apart = {group for group in state.left if group.is_buffer or group.constraints.volume_claims}
        self._pods = {pod.key: pod for group in self._apart for pod in group.pods}

    def take(self, contents: Contents) -> tuple[str, ...]:
        """Return the names of the next pods for the contents of a node."""
        return tuple([pod for _, index, number in contents for pod in islice(self._queues[index], number)])

    def left(self) -> Iterator[tuple[int, str]]:
        """Yield the pods without a node, each with the index of its group."""
        return ((index, pod) for index, pods in self._queues.items() for pod in pods)

    def alike(self, node: NodeState) -> bool:
        """Return whether all pods of each group on this node have one class."""
        return self._apart.isdisjoint(node.planned)

    def by_class(self, node: NodeState, pods: Sequence[str]) -> dict[str, int]:
        """Return how many slots the pods of this node need, by class. Capacity buffer pods need none, because no real
        pod has their name."""
        found: dict[str, int] = {}
        for group, number in node.planned.items():
            if group not in self._apart:
                known = group.constraints.class_key
                found[known] = found.get(known, 0) + number
        for pod in pods if self._apart else ():
            if pod in self._pods and not is_buffer_pod(self._pods[pod].name):
                known = self._pods[pod].constraints.class_key
                found[known] = found.get(known, 0) + 1
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """The common properties of nodes with the same offer and as many pods of the same groups."""

    labels: Mapping[str, str]
    alternatives: tuple[Offer, ...]
    requirements: Requirements
    requests: Resources
    classes: Mapping[str, int]
    min_values_relaxed: bool


class NodeWriter:
    """Writes nodes as values; the properties that equal nodes share are computed once."""

    def __init__(
        self,
        state: PlanState,
        slots: PodSlots,
        *,
        alternatives: OfferAlternatives | None = None,
        closed: Mapping[NodeState, frozenset[str]] = NO_ZONES,
    ) -> None:
        """``closed``: zones in which EC2 may not launch a node instead."""
        self._slots = slots
        self._closed = closed
        self._alternatives = alternatives or OfferAlternatives(state)
        self._resources = state.groups.resources
        self._named = {group: tuple(group.constraints.requests.amounts) for group in state.left}
        self._labels: dict[OfferChoice, dict[str, str]] = {}
        self._open_to: dict[tuple[OfferChoice, tuple[int, ...]], tuple[tuple[Offer, ...], Requirements]] = {}
        self._parts: dict[object, NodeDescription] = {}

    def _closed_of(self, node: NodeState) -> frozenset[str]:
        return self._closed.get(node, frozenset())

    def node(self, node: NodeState, choice: OfferChoice, contents: Contents, name: str) -> PlannedNode:
        """Return the planned node with its offer, alternatives, requirements and pods."""
        pool, own, pods = choice.pool_offers.pool, choice.one, self._slots.take(contents)
        known = (choice, self._closed_of(node), *node.free, *contents)
        parts = self._parts.get(known)
        if parts is None:
            parts = self._parts[known] = self._of(node, choice, pods)
        return PlannedNode(
            name=name,
            pool=pool.key,
            offer=own.offer,
            alternatives=parts.alternatives,
            labels=parts.labels,
            taints=pool.taints,
            startup_taints=pool.startup_taints,
            requirements=parts.requirements,
            requests=parts.requests,
            daemon_overhead=own.overhead,
            capacity=own.capacity,
            allocatable=own.allocatable,
            pods=pods,
            classes=parts.classes if self._slots.alike(node) else self._slots.by_class(node, pods),
            costs=own.costs,
            min_values_relaxed=parts.min_values_relaxed,
        )

    def _of(self, node: NodeState, choice: OfferChoice, pods: Sequence[str]) -> NodeDescription:
        if choice not in self._labels:
            every = {**choice.one.labels, **choice.variant.labels}
            shown = {key: value for key, value in every.items() if key not in NOT_YET}
            if shown.get(names.TENANCY) == names.DEFAULT_TENANCY:
                del shown[names.TENANCY]  # nodes get it from their instance
            self._labels[choice] = shown
        could_be = self._alternatives.of(node, choice, self._closed_of(node))
        known = (choice, tuple([one.index for one in could_be]))
        if known not in self._open_to:
            offers = tuple([one.offer for one in could_be])
            self._open_to[known] = (offers, narrowed_requirements(choice, offers))
        alternatives, requirements = self._open_to[known]
        return NodeDescription(
            labels=self._labels[choice],
            alternatives=alternatives,
            requirements=requirements,
            requests=self._requests(node, choice),
            classes=self._slots.by_class(node, pods),
            min_values_relaxed=not meets_min_values(could_be, choice.pool_offers.pool.min_values),
        )

    def _requests(self, node: NodeState, choice: OfferChoice) -> Resources:
        """Return the total requests of its pods: its capacity less what is free. Resources with no request are
        included."""
        named = set[str]().union(*{self._named[group] for group in node.planned})
        taken = zip(self._resources, choice.one.free, node.free, strict=True)
        return Resources({name: before - after for name, before, after in taken if name in named})


def narrowed_requirements(choice: OfferChoice, alternatives: Sequence[Offer]) -> Requirements:
    """Return the pool's requirements, narrowed to the alternatives (which meet them) and to the labels that the pool
    leaves open."""
    chosen = Requirements.of(
        Requirement(key, ValueSet.of(*values))
        for key, values in (
            (names.INSTANCE_TYPE, {one.instance_type for one in alternatives}),
            (names.ZONE, {one.zone for one in alternatives}),
            (names.CAPACITY_TYPE, {one.capacity_type for one in alternatives}),
        )
    )
    fixed = {**choice.variant.labels}
    if (tenancy := choice.one.offering.tenancy) != names.DEFAULT_TENANCY:
        fixed[names.TENANCY] = tenancy
    return choice.pool_offers.pool.requirements & Requirements.from_labels(fixed) & chosen


NOT_YET = frozenset({names.HOSTNAME, names.REGISTERED, names.INITIALIZED})
"""Labels that a node gets when it joins, and not from its claim."""
