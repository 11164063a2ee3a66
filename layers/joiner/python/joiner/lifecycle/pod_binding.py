"""Choose which pods to bind to a node while it is filling, so that the pods run as planned.

The node's own daemon pods that the filling taint kept out come first, then pods of the classes that are assigned to its
claim, highest priority first. A slot is for a class, not for a pod: any pending pod of the class may take it, and each
node gets about the same share of each workload. The API server checks nothing at a binding, so everything is checked
here against the node as it is now.

Only pods whose rules can be checked exactly while the node is closed are bound: resources, selectors, tolerations, host
ports, rules about this host, and zone spread if the live skew allows. All others are left to the scheduler once the
node opens: (anti-)affinity wider than a host, volumes, resource claims, gates, other schedulers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from joiner import names
from joiner.cluster import (
    HostPort,
    Node,
    Pod,
    PodAffinityTerm,
    Resources,
    TopologySpreadConstraint,
    mix_workloads,
    sum_resources,
)
from joiner.lifecycle.initialization import LINGERING
from joiner.pools.timestamps import parse_timestamp

SCHEDULER: Final = "default-scheduler"
NO_POD_WAITS: Final = "no pod of the class waits"
UNEVEN: Final = "it would be spread unevenly over "
# Seconds; the last taint is removed within five, and a pod that it evicts sooner is not bound here
TOLERATED_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Binding:
    """One pod to bind to one node; `uid` ensures that it is the pod that was read."""

    namespace: str
    pod: str
    uid: str
    node: str
    daemon: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """The pods to bind to a node, and the number of slots without a pod: `left` gives the reason, by class key."""

    bindings: tuple[Binding, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def for_the_scheduler(self) -> bool:
        """Return whether pods wait for this node that are never bound here.

        A spread that is uneven now becomes even when other nodes have their pods, so such pods do not count.
        """
        return any(why != NO_POD_WAITS and not why.startswith(UNEVEN) for why in self.left.values())

    @property
    def uneven(self) -> bool:
        """Return whether pods wait for this node until others are bound elsewhere."""
        return any(why.startswith(UNEVEN) for why in self.left.values())


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """The requests and rules of a pod that waits for a node of its own."""

    requests: Resources
    priority: int = 0

    def before(self, other: "WaitingPod") -> bool:
        """Return whether this pod fits on every node that the other fits on."""
        return self.priority >= other.priority and self.requests.fits(other.requests)

    def fits(self, node: Node, here: Iterable[Pod]) -> bool:
        """Return whether it fits on the node beside these pods."""
        return self.requests.fits(node.allocatable - sum_resources(pod.requests for pod in here))

    def preempts(self, node: Node, here: Sequence[Pod]) -> bool:
        """Return whether its scheduler would preempt pods of lower priority on the node for it."""
        staying = [pod for pod in here if pod.priority >= self.priority]
        return len(staying) < len(here) and self.fits(node, staying)


@dataclass(frozen=True, slots=True)
class BindingInput:
    """The pods and nodes that rules about other pods use; `namespaces` gives each namespace's labels."""

    nodes: Mapping[str, Node]
    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class BindingState:
    """The state of the cluster while pods are bound; each call of `choose_bindings` creates and changes its own."""

    def __init__(self, world: BindingInput) -> None:
        self.nodes = world.nodes
        self.namespaces = world.namespaces
        self.bound = [pod for pod in world.pods if pod.node_name and not pod.terminal]
        self.with_anti_affinity = [pod for pod in self.bound if pod.constraints.anti_affinity]
        waiting = sorted((pod for pod in world.pods if _waits(pod)), key=lambda pod: (pod.created, pod.key))
        self.daemons = {pod.key: pod for pod in waiting if pod.owner_kind == "DaemonSet" and pod.constraints.terms}
        classes: dict[str, list[Pod]] = {}
        for pod in waiting:
            if not pod.stays_with_node:
                classes.setdefault(pod.class_key, []).append(pod)
        self._waiting = {key: {pod.key: pod for pod in mix_workloads(pods)} for key, pods in classes.items()}
        self._here: dict[str, list[Pod]] = {}
        for pod in self.bound:
            self._here.setdefault(pod.node_name, []).append(pod)
        self._spread_counts: dict[tuple[str, str, int], SpreadCounts] = {}

    def on(self, node: str) -> list[Pod]:
        """Return the pods that use resources of a node."""
        return self._here.get(node, [])

    def waiting(self, class_key: str) -> list[Pod]:
        """Return the pods of a class that have no node, each workload's oldest first."""
        return list(self._waiting.get(class_key, {}).values())

    def spread_counts(self, pod: Pod, position: int) -> "SpreadCounts":
        """Return the counts of the pod's spread at `position`: the same for all pods of its namespace and shape."""
        key = (*_spread_key(pod), position)
        if key not in self._spread_counts:
            self._spread_counts[key] = SpreadCounts.of(pod.constraints.spreads[position], pod, self)
        return self._spread_counts[key]

    def bind(self, pod: Pod, node: Node) -> None:
        """Count the pod on the node for the pods that follow."""
        bound = replace(pod, node_name=node.name)
        self.bound.append(bound)
        self._here.setdefault(node.name, []).append(bound)
        self.daemons.pop(pod.key, None)
        self._waiting.get(pod.class_key, {}).pop(pod.key, None)
        if pod.constraints.anti_affinity:
            self.with_anti_affinity.append(bound)
        for spread_counts in self._spread_counts.values():
            spread_counts.add(bound)


@dataclass(slots=True)
class SpreadCounts:
    """The number of pods of a spread in each domain, as kube-scheduler counts them: over the nodes that its pod may
    use.
    """

    spread: TopologySpreadConstraint
    namespace: str
    domains: Mapping[str, str]
    """The domain of each node that counts."""
    counts: dict[str, int]

    @classmethod
    def of(cls, spread: TopologySpreadConstraint, pod: Pod, state: BindingState) -> "SpreadCounts":
        """Return the counts of a pod's spread over the nodes of the state."""
        domains = {
            name: each.labels[spread.topology_key] for name, each in state.nodes.items() if _eligible(spread, pod, each)
        }
        made = cls(spread, pod.namespace, domains, dict.fromkeys(domains.values(), 0))
        for other in state.bound:
            made.add(other)
        return made

    def add(self, pod: Pod) -> None:
        """Count a pod that is bound."""
        domain = self.domains.get(pod.node_name)
        if domain is not None and self._counts(pod):
            self.counts[domain] += 1

    def _counts(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and not pod.deletion and self.spread.selector.selects(pod.labels)

    def skewed_by(self, pod: Pod, node: Node, here: Iterable[Pod]) -> bool:
        """Return whether this pod on this node would violate the spread. The node counts even if it does not count for
        other pods yet.
        """
        domain = node.labels.get(self.spread.topology_key)
        if domain is None:
            return True
        counts = dict(self.counts)
        counts.setdefault(domain, 0)
        if node.name not in self.domains:
            counts[domain] += sum(map(self._counts, here))
        least = 0 if len(counts) < self.spread.min_domains else min(counts.values())
        itself = 1 if self.spread.selector.selects(pod.labels) else 0
        return counts[domain] + itself - least > self.spread.max_skew


def select_by_namespace_labels(pods: Iterable[Pod]) -> bool:
    """Return whether the anti-affinity of one of these pods selects namespaces by their labels."""
    return any(
        term.namespace_selector.requirements is not None for pod in pods for term in pod.constraints.anti_affinity
    )


def choose_bindings(targets: Iterable[tuple[Node, Mapping[str, int]]], world: BindingInput) -> dict[str, Placement]:
    """Return the bindings by node. Each target is a node with the slots (class key to count) of its claim.

    Spread pods are bound to their domains in turns: each pass over a node binds as many as the skew then allows.
    """
    state = BindingState(world)
    wanted = {node.name: (node, slots) for node, slots in targets}
    found = {name: _place_on(node, slots, state) for name, (node, slots) in wanted.items()}
    bound = bool(found)
    while bound:
        bound = False
        for name in [name for name, placement in found.items() if placement.uneven]:
            more = _place_on(*wanted[name], state)
            found[name] = replace(more, bindings=(*found[name].bindings, *more.bindings))
            bound |= bool(more.bindings)
    return found


def _place_on(node: Node, slots: Mapping[str, int], state: BindingState) -> Placement:
    bindings: list[Binding] = []
    left: dict[str, str] = {}
    opened = replace(node, taints=tuple(taint for taint in node.taints if taint.key != names.FILLING))
    for pod in _waiting_daemons(opened, state):
        if not _refusal(pod, opened, state):
            bindings.append(_binding(pod, node, daemon=True))
            state.bind(pod, node)
    for class_key, count, waiting in _by_priority(count_open_slots(node.name, slots, state.on(node.name)), state):
        taken = 0
        uneven: dict[tuple[str, str], str] = {}  # the same for all pods with this key, of which there may be many
        for pod in waiting:
            if taken == count:
                break
            if _spread_key(pod) in uneven:
                continue
            refusal = _refusal(pod, opened, state)
            if refusal:
                left[class_key] = refusal
                if refusal.startswith(UNEVEN):
                    uneven[_spread_key(pod)] = refusal
                continue
            bindings.append(_binding(pod, node))
            state.bind(pod, node)
            taken += 1
        if taken < count:
            left.setdefault(class_key, NO_POD_WAITS)
            if uneven:
                left[class_key] = next(iter(uneven.values()))
        else:
            left.pop(class_key, None)
    return Placement(tuple(bindings), left)


def _spread_key(pod: Pod) -> tuple[str, str]:
    """Return what the spreads of pods depend on. A default of the scheduler counts the pods of one workload, and pods
    of several workloads may have one class."""
    return pod.namespace, pod.constraints.shape_key


def count_open_slots(node: str, slots: Mapping[str, int], pods: Iterable[Pod]) -> dict[str, int]:
    """Return the open slots of an assignment: its counts minus the pods of its classes that run on the node."""
    there: dict[str, int] = {}
    for pod in pods:
        if pod.node_name == node and not pod.terminal:
            there[pod.class_key] = there.get(pod.class_key, 0) + 1
    return {key: count - there.get(key, 0) for key, count in slots.items() if count > there.get(key, 0)}


def list_smallest_waiting(assigned: Iterable[Mapping[str, int]], pods: Iterable[Pod]) -> list[WaitingPod]:
    """Return the smallest and most important pods among those that wait and have a slot on some node.

    If none of these fits, none of all those pods fits.
    """
    classes = _classes(assigned)
    return _least(pod for pod in pods if _waits(pod) and pod.class_key in classes)


def list_smallest_new(assigned: Iterable[Mapping[str, int]], pods: Iterable[Pod], since: datetime) -> list[WaitingPod]:
    """Return the smallest of the pods that wait without a slot because they are too new: created after `since`."""
    classes = _classes(assigned)
    fresh = (
        pod for pod in pods if _waits(pod) and pod.constraints.scheduler == SCHEDULER and pod.class_key not in classes
    )
    return _least(pod for pod in fresh if (created := parse_timestamp(pod.created)) is not None and created > since)


def _classes(assigned: Iterable[Mapping[str, int]]) -> set[str]:
    return {key for slots in assigned for key in slots}


def _least(pods: Iterable[Pod]) -> list[WaitingPod]:
    least: list[WaitingPod] = []
    for one in {pod.class_key: WaitingPod(pod.requests, pod.priority) for pod in pods}.values():
        if not any(known.before(one) for known in least):
            least = [known for known in least if not one.before(known)] + [one]
    return least


def _binding(pod: Pod, node: Node, *, daemon: bool = False) -> Binding:
    return Binding(pod.namespace, pod.name, pod.uid, node.name, daemon)


def _waits(pod: Pod) -> bool:
    return not (pod.node_name or pod.deletion or pod.terminal or pod.gates)


def _waiting_daemons(node: Node, state: BindingState) -> list[Pod]:
    """Return the daemon pods created for this node (the controller writes the node's name into their affinity)."""
    return [pod for pod in state.daemons.values() if pod.constraints.suits(node.labels, node.name)]


def _by_priority(wanted: Mapping[str, int], state: BindingState) -> list[tuple[str, int, list[Pod]]]:
    """Return each class with its open slots and its pending pods, each workload's oldest first; classes of higher
    priority first."""
    classes = [(key, count, state.waiting(key)) for key, count in wanted.items()]
    return sorted(classes, key=lambda each: (-each[2][0].priority if each[2] else 0, each[0]))


def _refusal(pod: Pod, node: Node, state: BindingState) -> str:
    """Return why Joiner does not bind this pod to this node; empty if it does."""
    here = state.on(node.name)
    return _left_to_the_scheduler(pod) or _node_refuses(pod, node, here) or _neighbours_refuse(pod, node, state, here)


def _left_to_the_scheduler(pod: Pod) -> str:
    rules = pod.constraints
    if rules.scheduler != SCHEDULER:
        return f"it belongs to the scheduler {rules.scheduler}"
    if rules.volume_claims or rules.resource_claims:
        return "the scheduler binds its volumes or resource claims"
    if rules.affinity or any(term.topology_key != names.HOSTNAME for term in rules.anti_affinity):
        return "the scheduler evaluates its affinity to other pods"
    return ""


def _node_refuses(pod: Pod, node: Node, here: Sequence[Pod]) -> str:
    rules = pod.constraints
    taint = rules.untolerated(node.taints)
    if taint is not None:
        return f"it does not tolerate {taint}"
    if any(taint.matches(LINGERING) for taint in node.taints) and not rules.tolerates_for(LINGERING, TOLERATED_SECONDS):
        return f"it does not tolerate {LINGERING} for long"
    if not rules.suits(node.labels, node.name):
        return "its node selector, affinity or operating system does not suit the node"
    lacking = rules.requests.lacking(node.allocatable - sum_resources(other.requests for other in here))
    if lacking:
        return f"the node lacks {_shown(lacking)}"
    if _ports_clash(rules.host_ports, here):
        return "a host port that it needs is taken"
    return ""


def _neighbours_refuse(pod: Pod, node: Node, state: BindingState, here: Sequence[Pod]) -> str:
    rules = pod.constraints
    if any(_selected(term, other, state) for term in rules.anti_affinity for other in here):
        return "a pod on the node matches its anti-affinity"
    for other in state.with_anti_affinity:
        for term in other.constraints.anti_affinity:
            if _same_domain(term.topology_key, node, state.nodes.get(other.node_name)) and _selected(term, pod, state):
                return f"the anti-affinity of {other.key} matches it"
    for position, spread in enumerate(rules.spreads):
        if spread.hard and state.spread_counts(pod, position).skewed_by(pod, node, here):
            return f"{UNEVEN}{spread.topology_key}"
    return ""


def _selected(term: PodAffinityTerm, pod: Pod, state: BindingState) -> bool:
    return term.selects(pod.namespace, pod.labels, state.namespaces)


def _same_domain(topology_key: str, node: Node, other: Node | None) -> bool:
    if other is None:
        return False
    here = node.labels.get(topology_key)
    return here is not None and here == other.labels.get(topology_key)


def _ports_clash(ports: Iterable[HostPort], here: Sequence[Pod]) -> bool:
    taken = [port for other in here for port in other.constraints.host_ports]
    return any(port.conflicts(other) for port in ports for other in taken)


def _eligible(spread: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    """Return whether a node counts for a spread: it has the topology keys of all hard constraints of the pod. Source:
    kube-scheduler, plugin PodTopologySpread."""
    keys = {spread.topology_key, *(each.topology_key for each in pod.constraints.spreads if each.hard)}
    if not keys <= node.labels.keys():
        return False
    if spread.honors_affinity and not pod.constraints.selects(node.labels, node.name):
        return False
    return not (spread.honors_taints and pod.constraints.untolerated(node.taints) is not None)


def _shown(amounts: Resources) -> str:
    return ", ".join(f"{quantity} {name}" for name, quantity in amounts.to_kube().items())
