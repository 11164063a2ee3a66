"""Fill the nodes that may take pods, and open them.

The function can stop between any two steps. It binds pods, opens the node (one patch: initialized label, filling taint
removed), deletes the assignment, and then writes the condition `Initialized` on the claim. A claim without that
condition is checked again, by this execution or by the one that the sweep starts.

A Ready node gets its pods even while the last taint of the node controller remains, and opens when that taint is
removed.

The scheduler reads pods and nodes by separate watches. A node that opened right after its bindings could get other pods
before the scheduler knows the bound ones, and its kubelet would reject the pods above its capacity. So a node opens a
second after its last binding: in a later pass, or after a pause in this one if no other node of the wave is awaited.

A node that has its pods stays closed a little longer while a pod planned for another node would fit into its free
capacity, or would preempt its pods. Otherwise the scheduler would bind that pod here, against the plan. For some
seconds after it became Ready, it also stays closed while other nodes of the wave are awaited, so that the scheduler
does not try their pods again: so the openings of a wave follow its bindings. The next check is due when these seconds
end.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.check_registration.assigned_pods import NodeFilling, NodeReading
from functions.check_registration.node_joining_steps import ClaimProgress
from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.joining_records import JoiningRecords
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import write_status
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_nodes import patch_node
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time, results_of
from joiner.cluster import InvalidField, Node
from joiner.lifecycle.filled_nodes import FilledNode, FilledNodes
from joiner.lifecycle.initialization import (
    closed_too_long,
    initialization_patch,
    is_initialized,
    may_be_filled,
    opening_patch,
)
from joiner.lifecycle.node_deadlines import opens_before_others_at
from joiner.names import FILLING
from joiner.pools import NodeClaim
from joiner.reporting import registration_events as reporting

logger = Logger(child=True)

BINDINGS_KNOWN_AFTER: Final = 1.0
"""Seconds after a binding in which the scheduler reads it: its watch lags by milliseconds, under load by tenths."""


class BindingTimes:
    """When the passes of one check bound pods last, by node, in seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bound: dict[str, float] = {}

    def record(self, nodes: Iterable[str]) -> None:
        """Record that these nodes got pods until now."""
        self._bound.update(dict.fromkeys(nodes, self._clock()))

    def find_unread(self, nodes: Iterable[FilledNode]) -> dict[str, float]:
        """Return, by claim, for how many seconds the scheduler may not have read the bindings of these nodes."""
        now = self._clock()
        return {
            each.claim: max(0.0, BINDINGS_KNOWN_AFTER - (now - self._bound.get(each.node.name, -inf))) for each in nodes
        }


class NodeOpening:
    """Binds pods to nodes that may take them, and opens the nodes that are ready for all pods, in one pass."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        records: JoiningRecords,
        now: datetime,
        bindings: BindingTimes,
        *,
        time_left: TimeLeft = UNBOUNDED,
        opening_time_left: TimeLeft = UNBOUNDED,
        default_spreads: Sequence[Mapping[str, Any]] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._time_left = time_left
        self._opening_time_left = opening_time_left
        self._default_spreads = default_spreads
        self._bindings = bindings
        self._sleep = sleep
        self._kube = kube
        self._ledger = ledger
        self._records = records
        self._now = now
        self._filling: NodeFilling | None = None
        self._filled: set[str] = set()
        self._opened: set[str] = set()

    def bind(self, checked: Iterable[ClaimProgress], reading: NodeReading) -> None:
        """Bind the pods of the nodes that may be filled, before others of the wave are registered. No node opens."""
        fillable = _find_fillable(checked)
        if not fillable:
            return
        if self._filling is None:
            self._filling = NodeFilling(
                self._kube,
                self._records.assigned(),
                self._now,
                self._time_left,
                default_spreads=self._default_spreads,
            )
        self._bindings.record(self._filling.bind(fillable, reading))
        self._filled |= {each.claim.name for each in fillable}

    def open(self, wave: str, checked: Sequence[ClaimProgress], *, launching: bool = False) -> list[ClaimProgress]:
        """Return the progress of all claims after filling every node that may be filled and opening every ready one.

        While other nodes of the wave are awaited or its execution is `launching`, nodes that just got pods open in a
        later pass, or check, so that this one ends soon.
        """
        fillable = _find_fillable(checked)
        if any(each.claim.name not in self._filled for each in fillable):
            self.bind(checked, NodeReading.of(self._kube))
        if self._filling is None:
            return list(checked)
        filling = {each.claim.name for each in fillable}
        awaited = launching or any(
            each.stage in ("waiting", "registered") and each.claim.name not in filling for each in checked
        )
        filled = replace(self._filling.assess(), awaited=awaited)
        opened = self._open_filled(wave, fillable, filled)
        return [opened.get(each.claim.name) or each for each in checked]

    def open_closed(self, nodes: Iterable[Node]) -> None:
        """Open every node of this cluster that was closed for too long, regardless of its claim."""
        late = [node for node in nodes if closed_too_long(node, self._now)]
        answers, left = call_each_in_time(
            late, lambda node: self._open(node, initialized=False), (KubeError, InvalidField), self._time_left
        )
        for node, answer in answers:
            if isinstance(answer, KubeError | InvalidField):
                logger.warning(
                    "a node that was closed for too long could not be opened", node=node.name, reason=str(answer)
                )
            else:
                logger.warning("opened a node that was closed for too long", node=node.name)
        if left:
            logger.warning("no time was left to open all nodes that were closed for too long", left=len(left))

    def _open_filled(
        self, wave: str, fillable: Sequence[ClaimProgress], filling: FilledNodes
    ) -> dict[str, ClaimProgress]:
        by_claim = {each.claim.name: each for each in fillable}
        unread = self._bindings.find_unread(filling.nodes)
        if not filling.awaited and (longest := max(unread.values(), default=0.0)):
            self._sleep(longest)
        answers, late = call_each_in_time(
            filling.nodes,
            lambda node: self._finish(
                by_claim[node.claim], node, filling, settles=filling.awaited and unread[node.claim] > 0
            ),
            CALL_FAILURES,
            self._opening_time_left,
        )
        progress = {each.claim.name: each for each in results_of(answers, CALL_FAILURES)}
        progress |= {each.claim: _postponed(by_claim[each.claim], each) for each in late}
        self._count_placed(wave, [node for node in filling.nodes if node.claim in self._opened])
        return progress

    def _count_placed(self, wave: str, opened: Sequence[FilledNode]) -> None:
        """Count the pods of the nodes that this pass opened, for the report of the wave: nothing else depends on it."""
        if not opened:
            return
        planned, placed = sum(node.planned for node in opened), sum(node.placed for node in opened)
        try:
            self._ledger.count_placed(wave, planned=planned, placed=placed)
        except CALL_FAILURES as refusal:
            logger.warning("the placed pods could not be counted", wave=wave, placed=placed, reason=str(refusal))

    def _finish(
        self, progress: ClaimProgress, filled: FilledNode, filling: FilledNodes, *, settles: bool
    ) -> ClaimProgress:
        claim, progress = progress.claim, _with_placed(progress, filled)
        if progress.stage != "ready":
            return replace(progress, message=f"{filled.description}; {progress.message}")
        if reason := filling.find_reason_to_stay_closed(filled, self._now):
            return replace(progress, stage="registered", message=reason)
        if filling.opens_later(filled, self._now):  # in the check of the nodes that are awaited, or after some seconds
            message = f"{filled.description}, and opens after other nodes of its wave have theirs"
            opens_at = opens_before_others_at(filled.ready_since)
            return replace(progress, stage="registered", message=message, opens_at=opens_at)
        if settles:
            message = f"{filled.description}, and opens in the next pass"
            return replace(progress, stage="registered", message=message, settling=True)
        try:
            node = self._open(filled.node, initialized=True)
            self._opened.add(claim.name)  # also if a later write fails: the next check finds an open node
            self._records.note_ready(claim, node)
            self._records.unassign(claim.name)
            claim = claim.as_initialized(at=self._now, capacity=node.capacity, allocatable=node.allocatable)
            claim = write_status(self._kube, claim)
        except CALL_FAILURES as refusal:  # the next check repeats what is missing
            return replace(progress, stage="registered", message=f"could not be opened now: {refusal}")
        self._end_back_off(claim)
        events = (*progress.events, *reporting.report_initialized(claim, node))
        return replace(progress, claim=claim, node=node, stage="initialized", message="is initialized", events=events)

    def _end_back_off(self, claim: NodeClaim) -> None:
        """End what is counted against the claim's class. It is the last step, because no node depends on it."""
        try:
            self._records.note_good_class(claim)
        except CALL_FAILURES as refusal:
            logger.warning("the back-off of a node class could not be ended", nodeclaim=claim.name, reason=str(refusal))

    def _open(self, node: Node, *, initialized: bool) -> Node:
        opened = patch_node(self._kube, node, partial(_opening_patch, initialized=initialized))
        if opened is None:
            raise NotFound(f"node {node.name} is gone, or is another one by now")
        return opened


def _with_placed(progress: ClaimProgress, filled: FilledNode) -> ClaimProgress:
    """Return the progress with the events of the pods that were bound to the node in this pass."""
    placed = (reporting.report_placed(pod, filled.node, progress.claim) for pod in filled.bound)
    return replace(progress, events=(*progress.events, *placed))


def _postponed(progress: ClaimProgress, filled: FilledNode) -> ClaimProgress:
    """Return the progress of a node for which no time was left: the next check opens it."""
    progress = _with_placed(progress, filled)
    if progress.stage != "ready":
        return progress
    message = f"{filled.description}, and opens in the next pass: no time was left"
    return replace(progress, stage="registered", message=message, settling=True)


def _opening_patch(node: Node, *, initialized: bool) -> Mapping[str, Any] | None:
    if not node.has_taint(FILLING) and (is_initialized(node) or not initialized):
        return None
    return initialization_patch(node) if initialized else opening_patch(node)


def _find_fillable(checked: Iterable[ClaimProgress]) -> list[ClaimProgress]:
    return [each for each in checked if each.stage == "ready" or (each.stage == "registered" and _may_be_filled(each))]


def _may_be_filled(progress: ClaimProgress) -> bool:
    return progress.node is not None and not progress.fresh and may_be_filled(progress.claim, progress.node)
