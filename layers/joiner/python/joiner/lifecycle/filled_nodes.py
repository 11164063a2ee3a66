"""When a node that was filled with its planned pods opens to all pods, and why it stays closed until then.

A node that has its pods stays closed a little longer while a pod that is planned for another node fits into its free
resources, or could preempt a pod on it. The scheduler would bind that pod to this node, and the plan would no longer
hold. `joiner.lifecycle.deadlines` limits each of these waits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from joiner.cluster import Node, Pod
from joiner.lifecycle import deadlines
from joiner.lifecycle.binding import WaitingPod
from joiner.names import FILLING


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


@dataclass(frozen=True, slots=True)
class FilledNodes:
    """The nodes of one check, and the smallest of the pods that are planned for other nodes.

    `important` includes pods that were bound in this check: the scheduler reads pods and nodes separately, and may see
    a node open before it sees that a pod is bound. A second binding of that pod is refused, but the pods that it
    preempts are lost. `newcomers` are new pods that no plan has seen.
    """

    nodes: Sequence[FilledNode]
    promised: Sequence[WaitingPod]
    important: Sequence[WaitingPod]
    newcomers: Sequence[WaitingPod]

    def find_reason_to_stay_closed(self, one: FilledNode, now: datetime) -> str:
        """Return why a node of this check does not open yet; empty if it opens."""
        if not one.node.has_taint(FILLING):
            return ""
        if not deadlines.binding_timed_out(one.ready_since, now) and one.failed:
            return f"{len(one.failed)} bindings failed and are tried again: {one.failed[0]}"
        if not deadlines.may_take_other_pods(one.ready_since, now) and self._takes_another_pod(one):
            return f"has its {one.placed} pods, and stays closed to those that wait for other nodes"
        if not deadlines.may_be_preempted(one.ready_since, now) and self._is_preempted(one, self.important):
            waiting = "wait for other nodes or were just bound to them"
            return f"has its {one.placed} pods, and stays closed to more important ones that {waiting}"
        if not deadlines.may_take_other_pods(one.ready_since, now) and self._is_preempted(one, self.newcomers):
            return (
                f"has its {one.placed} pods, and stays closed to more important ones that are new and have "
                f"no node planned yet"
            )
        return ""

    def _takes_another_pod(self, one: FilledNode) -> bool:
        """Return whether the scheduler would bind a pod to this node that is planned for another node."""
        return not one.for_the_scheduler and any(pod.fits(one.node, one.here) for pod in self.promised)

    @staticmethod
    def _is_preempted(one: FilledNode, others: Iterable[WaitingPod]) -> bool:
        """Return whether the scheduler would preempt pods on this node for one of the others."""
        return not one.for_the_scheduler and any(pod.preempts(one.node, one.here) for pod in others)
