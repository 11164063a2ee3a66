"""Fill the nodes that may take pods, and open them.

The function can stop between any two steps. It binds pods, opens the node (one patch: initialized label, filling taint
removed), deletes the assignment, and last writes the condition `Initialized` on the claim. A claim without that
condition is checked again, by this execution or by the one that the sweep starts.

A Ready node gets its pods even while the last taint of the node controller remains, and opens when that taint is
removed.

A node that has its pods stays closed a little longer while a pod planned for another node would fit into its free
capacity, or would preempt its pods. Otherwise the scheduler would bind that pod here, against the plan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from aws_lambda_powertools import Logger

from functions.check_registration.node_filling import NodeFilling
from functions.check_registration.node_registration import ClaimProgress
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import write_status
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel import UNBOUNDED, TimeLeft, call_all, call_each_in_time
from joiner.cluster import InvalidField, Node
from joiner.lifecycle.filled_nodes import FilledNode, FilledNodes
from joiner.lifecycle.initialization import (
    closed_too_long,
    initialization_patch,
    is_initialized,
    may_be_filled,
    opening_patch,
)
from joiner.names import FILLING
from joiner.reporting import registration_events as telling
from joiner.reporting.events import Event

logger = Logger(child=True)

TRIES: Final = 3  # see node_registration


class NodeOpening:
    """Binds pods to nodes that may take them, and opens the nodes that are ready for all pods."""

    def __init__(self, kube: Kube, ledger: Ledger, now: datetime, time_left: TimeLeft = UNBOUNDED) -> None:
        self._time_left = time_left
        self._kube = kube
        self._ledger = ledger
        self._now = now

    def open(self, wave: str, steps: Sequence[ClaimProgress]) -> list[ClaimProgress]:
        """Return the steps after filling every node that may be filled and opening every ready one."""
        fillable = [
            step for step in steps if step.stage == "ready" or (step.stage == "registered" and _may_be_filled(step))
        ]
        filled = self._fill(wave, fillable) if fillable else {}
        return [filled.get(step.claim.name) or step for step in steps]

    def open_closed(self, nodes: Iterable[Node]) -> None:
        """Open every node of this cluster that was closed for too long, regardless of its claim."""
        late = [node for node in nodes if closed_too_long(node, self._now)]
        answers, left = call_each_in_time(
            late, lambda node: self._open(node, initialized=False), Exception, self._time_left
        )
        for node, answer in answers:
            if isinstance(answer, KubeError | InvalidField):
                logger.warning(
                    "a node that was closed for too long could not be opened", node=node.name, reason=str(answer)
                )
            elif isinstance(answer, Exception):
                raise answer
            else:
                logger.warning("opened a node that was closed for too long", node=node.name)
        if left:
            logger.warning("no time was left to open all nodes that were closed for too long", left=len(left))

    def _fill(self, wave: str, fillable: Sequence[ClaimProgress]) -> dict[str, ClaimProgress]:
        assigned = {name: assignment.classes for name, assignment in self._ledger.assignments().items()}
        filling = NodeFilling(self._kube, assigned, self._now, self._time_left).fill(fillable)
        by_claim = {step.claim.name: step for step in fillable}
        finished = call_all(filling.nodes, lambda one: self._finish(by_claim[one.claim], one, filling), KubeError)
        steps = {step.claim.name: step for step in finished}
        done = [one for one in filling.nodes if steps[one.claim].stage == "initialized"]
        if done:
            self._ledger.count_placed(
                wave, planned=sum(one.planned for one in done), placed=sum(one.placed for one in done)
            )
        return steps

    def _finish(self, step: ClaimProgress, one: FilledNode, filling: FilledNodes) -> ClaimProgress:
        node, claim = one.node, step.claim
        events: list[Event] = [*step.events, *(telling.report_placed(pod, node, claim) for pod in one.bound)]
        if step.stage != "ready":
            troubled = f", {len(one.failed)} bindings failed: {one.failed[0]}" if one.failed else ""
            return replace(
                step, said=f"has {one.placed} of its {one.planned} pods{troubled}; {step.said}", events=tuple(events)
            )
        if said := filling.find_reason_to_stay_closed(one, self._now):
            return replace(step, stage="registered", said=said, events=tuple(events))
        try:
            node = self._open(node, initialized=True)
            self._ledger.unassign(claim.name)
            claim = claim.as_initialized(at=self._now, capacity=node.capacity, allocatable=node.allocatable)
            write_status(self._kube, claim)
        except KubeError as reason:
            return replace(step, stage="registered", said=f"could not be opened now: {reason}", events=tuple(events))
        events += telling.report_initialized(claim, node)
        return replace(step, claim=claim, node=node, stage="initialized", said="is initialized", events=tuple(events))

    def _open(self, node: Node, *, initialized: bool) -> Node:
        for _ in range(TRIES):
            if not node.has_taint(FILLING) and (is_initialized(node) or not initialized):
                return node
            try:
                patch = initialization_patch(node) if initialized else opening_patch(node)
                return Node.from_kube(self._kube.patch(kinds.NODES, node.name, patch))
            except Conflict:
                now = Node.from_kube(self._kube.get(kinds.NODES, node.name))
                if now.uid != node.uid:
                    raise NotFound(f"node {node.name} is another one by now") from None
                node = now
        raise Conflict(f"node {node.name} changes all the time")


def _may_be_filled(step: ClaimProgress) -> bool:
    return step.node is not None and not step.fresh and may_be_filled(step.claim, step.node)
