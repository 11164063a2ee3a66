"""Register one node for its claim; the node counts as initialized when it takes pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import write_status
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.ledger import Ledger
from joiner.cluster import Node
from joiner.lifecycle import deadlines
from joiner.lifecycle.failed_claims import (
    CONDITION_OF_REASON,
    INITIALIZATION_TIMEOUT,
    NODE_GONE,
    REGISTRATION_TIMEOUT,
    failure_reason,
)
from joiner.lifecycle.initialization import is_initialized, missing_for_initialization
from joiner.lifecycle.registration import ClaimAndNode, is_registered, joined_without_taint, registration_patch
from joiner.pools import NodeClaim
from joiner.pools.timestamps import format_timestamp
from joiner.reporting import registration_events as telling
from joiner.reporting.events import Event

Stage = Literal["waiting", "registered", "ready", "initialized", "failed"]

TRIES: Final = 3  # a kubelet that starts writes its Node often, and a patch of an older version is refused


@dataclass(frozen=True, slots=True)
class ClaimProgress:
    """The state of one claim in this check.

    `said` is the log line. `ready` means that its node may be filled and opened now.
    """

    claim: NodeClaim
    stage: Stage
    said: str
    node: Node | None = None
    events: tuple[Event, ...] = field(default=())
    fresh: bool = False
    """The node was registered in this check: its kubelet may not know yet that the taint of unregistered nodes is
    removed.
    """


class NodeRegistration:
    """Registers nodes, one at a time; `manifests` are the listed nodes by name."""

    def __init__(self, kube: Kube, ledger: Ledger, manifests: Mapping[str, Mapping[str, Any]], now: datetime) -> None:
        self._kube = kube
        self._ledger = ledger
        self._manifests = manifests
        self._now = now

    def join(self, meeting: ClaimAndNode) -> ClaimProgress:
        """Return the step of one claim; after a failed API call the claim stays in its state until the next check."""
        step = self._step(meeting)
        if step.stage not in ("waiting", "registered"):
            return step
        minutes = int(deadlines.REGISTRATION.total_seconds() // 60)
        if deadlines.registration_timed_out(step.claim, self._now):
            told = telling.report_registration_timeout(step.claim, minutes)
            return self._give_up(step, f"no node joined in {minutes} minutes", told, REGISTRATION_TIMEOUT)
        if deadlines.initialization_timed_out(step.claim, self._now):
            minutes = int(deadlines.INITIALIZATION.total_seconds() // 60)
            told = telling.report_initialization_timeout(step.claim, minutes, step.said)
            return self._give_up(step, f"its node does not take pods: {step.said}", told, INITIALIZATION_TIMEOUT)
        return step

    def _step(self, meeting: ClaimAndNode) -> ClaimProgress:
        claim, node = meeting.claim, meeting.node
        if meeting.others:
            said = f"several nodes say that they are its instance: {', '.join(meeting.others)}"
            return ClaimProgress(claim, "waiting", said, events=(telling.report_multiple_nodes(claim, meeting.others),))
        if node is None:
            return self._without_node(claim)
        if node.deletion:
            return self._gone(claim, node, f"its node {node.name} is being deleted")
        try:
            return self._with_node(claim, node)
        except KubeError as reason:
            return ClaimProgress(claim, "waiting", f"could not be joined now: {reason}", node)

    def _without_node(self, claim: NodeClaim) -> ClaimProgress:
        if failure_reason(claim):
            return ClaimProgress(claim, "failed", f"was given up: {failure_reason(claim)}")
        if claim.registered:
            return self._gone(claim, None, f"its node {claim.node_name} is gone")
        deadline = deadlines.registration_deadline(claim)
        until = f", it may until {format_timestamp(deadline)}" if deadline else ""
        return ClaimProgress(claim, "waiting", f"instance {claim.instance_id} has not joined yet{until}")

    def _gone(self, claim: NodeClaim, node: Node | None, said: str) -> ClaimProgress:
        return self._give_up(
            ClaimProgress(claim, "waiting", said, node), said, telling.report_node_gone(claim), NODE_GONE
        )

    def _give_up(self, step: ClaimProgress, said: str, told: Event, reason: str) -> ClaimProgress:
        """Give up the claim's node, so that its pods are planned again and no wave awaits it.

        The condition is written last: without it, the claim is checked again.
        """
        claim = step.claim
        if failure_reason(claim) == reason:
            return replace(step, stage="failed", said=said)
        try:
            self._ledger.unassign(claim.name)
            claim = claim.with_condition(CONDITION_OF_REASON[reason], "False", reason, told.note, at=self._now)
            write_status(self._kube, claim)
        except KubeError as refusal:
            return replace(step, stage="waiting", said=f"{said}; could not be given up now: {refusal}")
        return replace(step, claim=claim, stage="failed", said=said, events=(*step.events, told))

    def _with_node(self, claim: NodeClaim, node: Node) -> ClaimProgress:
        events: list[Event] = []
        fresh = not is_registered(node)
        if fresh:
            if joined_without_taint(node):
                events.append(telling.report_missing_taint(claim, node))
            node = self._register(claim, node)
        if not claim.registered or claim.node_name != node.name:
            claim = claim.as_registered(node.name, at=self._now, opens_by=self._now + deadlines.INITIALIZATION)
            write_status(self._kube, claim)
            events += telling.report_registered(claim, node)
        if is_initialized(node) and claim.initialized:
            return ClaimProgress(claim, "initialized", "was initialized before", node, tuple(events))
        missing = "" if is_initialized(node) else missing_for_initialization(claim, node)
        if missing:
            return ClaimProgress(claim, "registered", missing, node, tuple(events), fresh)
        return ClaimProgress(claim, "ready", "may take pods", node, tuple(events))

    def _register(self, claim: NodeClaim, node: Node) -> Node:
        manifest = self._manifests[node.name]
        for _ in range(TRIES - 1):
            try:
                return self._patch(claim, manifest)
            except Conflict:
                manifest = self._kube.get(kinds.NODES, node.name)
        return self._patch(claim, manifest)

    def _patch(self, claim: NodeClaim, manifest: Mapping[str, Any]) -> Node:
        node = Node.from_kube(manifest)
        if node.provider_id != claim.provider_id:
            raise NotFound(f"node {node.name} is another instance's now")
        owners = manifest["metadata"].get("ownerReferences") or ()
        return Node.from_kube(self._kube.patch(kinds.NODES, node.name, registration_patch(claim, node, owners)))
