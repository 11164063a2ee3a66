"""When a node that was filled with its planned pods opens to all pods, and why it stays closed until then.

A node that has its pods stays closed a little longer while a pod that is planned for another node fits into its free
resources, or could preempt a pod on it. The scheduler would bind that pod to this node, and the plan would no longer
hold. For some seconds, it also stays closed while nodes of other planned pods are awaited: the scheduler would try all
of these pods again. `joiner.lifecycle.node_deadlines` limits each of these waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from joiner.cluster import Node, Pod
from joiner.lifecycle import node_deadlines
from joiner.lifecycle.pod_binding import WaitingPod, count_open_slots, list_smallest_new, list_smallest_waiting
from joiner.names import FILLING

Slots = Mapping[str, int]
"""Class -> number of its pods."""


@dataclass(frozen=True, slots=True)
class NodeToFill:
    """A node that may take pods, and its claim.

    `slots` are the pods that are planned for it; none if the node is open, because the scheduler fills open nodes.
    """

    claim: str
    node: Node
    ready_since: datetime | None
    slots: Slots = field(default_factory=dict)
    for_the_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class BindingResults:
    """The results of all bindings of one check: the node of each bound pod, by uid, and the errors, by node."""

    bound: Mapping[str, str]
    failed: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class FilledNode:
    """A node of the claim `claim`, with the pods on it.

    `here` are all pods on the node, `bound` those that were bound in this check. Of the `planned` slots of the claim,
    `open` have no pod. `failed` are the errors of bindings that failed.
    """

    claim: str
    node: Node
    ready_since: datetime | None
    planned: int
    open: int
    here: Sequence[Pod]
    bound: Sequence[Pod]
    failed: Sequence[str]
    for_the_scheduler: bool
    """Whether pods that only the scheduler may bind wait for the node to open."""

    @property
    def placed(self) -> int:
        """Return the number of slots that have a pod."""
        return self.planned - self.open

    @property
    def description(self) -> str:
        """Return how many of its pods it has, and the first binding that failed."""
        failures = f", {len(self.failed)} bindings failed: {self.failed[0]}" if self.failed else ""
        return f"has {self.placed} of its {self.planned} pods{failures}"


@dataclass(frozen=True, slots=True)
class FilledNodes:
    """The nodes of one check, and the smallest of the pods that are planned for other nodes.

    `awaited` says whether other nodes of the wave will take pods later.

    `important` includes pods that were bound in this check: the scheduler reads pods and nodes separately, and may see
    a node open before it sees that a pod is bound. A second binding of that pod is refused, but the pods that it
    preempts are lost. `newcomers` are new pods that no plan has seen.
    """

    nodes: Sequence[FilledNode]
    promised: Sequence[WaitingPod]
    important: Sequence[WaitingPod]
    newcomers: Sequence[WaitingPod]
    awaited: bool = False

    def find_reason_to_stay_closed(self, one: FilledNode, now: datetime) -> str:
        """Return why a node of this check does not open yet; empty if it opens."""
        if not one.node.has_taint(FILLING):
            return ""
        if not node_deadlines.binding_timed_out(one.ready_since, now) and one.failed:
            return f"{len(one.failed)} bindings failed and are tried again: {one.failed[0]}"
        if not node_deadlines.may_take_other_pods(one.ready_since, now) and self._takes_another_pod(one):
            return f"has its {one.placed} pods, and stays closed to those that wait for other nodes"
        if not node_deadlines.may_be_preempted(one.ready_since, now) and self._is_preempted(one, self.important):
            waiting = "wait for other nodes or were just bound to them"
            return f"has its {one.placed} pods, and stays closed to more important ones that {waiting}"
        if not node_deadlines.may_take_other_pods(one.ready_since, now) and self._is_preempted(one, self.newcomers):
            return (
                f"has its {one.placed} pods, and stays closed to more important ones that are new and have "
                f"no node planned yet"
            )
        return ""

    def opens_later(self, one: FilledNode, now: datetime) -> bool:
        """Return whether the scheduler would retry pods that do not fit here, and whose nodes are awaited."""
        if not one.node.has_taint(FILLING) or node_deadlines.may_open_before_others(one.ready_since, now):
            return False
        return self.awaited and not one.for_the_scheduler and bool(self.promised)

    def _takes_another_pod(self, one: FilledNode) -> bool:
        """Return whether the scheduler would bind a pod to this node that is planned for another node."""
        return not one.for_the_scheduler and any(pod.fits(one.node, one.here) for pod in self.promised)

    @staticmethod
    def _is_preempted(one: FilledNode, others: Iterable[WaitingPod]) -> bool:
        """Return whether the scheduler would preempt pods on this node for one of the others."""
        return not one.for_the_scheduler and any(pod.preempts(one.node, one.here) for pod in others)


def assess_filled_nodes(
    filled: Sequence[NodeToFill], pods: Sequence[Pod], results: BindingResults, assigned: Iterable[Slots], now: datetime
) -> FilledNodes:
    """Return the state of the nodes of one check after the bindings.

    `pods` are those that were listed before the bindings, `assigned` the slots of all claims.
    """
    here: dict[str, list[Pod]] = {each.node.name: [] for each in filled}
    for pod in pods:
        if (name := results.bound.get(pod.uid, pod.node_name)) in here and not pod.terminal:
            here[name].append(replace(pod, node_name=name))
    waiting = [pod for pod in pods if pod.uid not in results.bound]
    slots = list(assigned)
    return FilledNodes(
        [_assess(each, here[each.node.name], results) for each in filled],
        promised=list_smallest_waiting(slots, waiting),
        important=list_smallest_waiting(slots, pods),
        newcomers=list_smallest_new(slots, waiting, now - node_deadlines.PLANNED_WITHIN),
    )


def _assess(filled: NodeToFill, here: Sequence[Pod], results: BindingResults) -> FilledNode:
    name = filled.node.name
    return FilledNode(
        filled.claim,
        filled.node,
        filled.ready_since,
        planned=sum(filled.slots.values()),
        open=sum(count_open_slots(name, filled.slots, here).values()),
        here=here,
        bound=[pod for pod in here if pod.uid in results.bound and not pod.stays_with_node],
        failed=tuple(results.failed.get(name, ())),
        for_the_scheduler=filled.for_the_scheduler,
    )
