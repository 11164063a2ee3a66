"""Register one node for its claim; the node counts as initialized when it takes pods."""

from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime

from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.joining_records import JoiningRecords
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import write_status
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_nodes import patch_node
from joiner.cluster import Node
from joiner.lifecycle import node_deadlines
from joiner.lifecycle.failed_claims import (
    CONDITION_OF_REASON,
    NODE_GONE,
    REGISTRATION_TIMEOUT,
    failure_reason,
)
from joiner.lifecycle.initialization import missing_device
from joiner.lifecycle.registration import ClaimAndNode, is_registered, joined_without_taint, registration_patch
from joiner.lifecycle.registration_progress import (
    CONDITION_OF_TROUBLE,
    RESOURCE_NOT_REGISTERED,
    RegistrationProgress,
    Stage,
    assess_deadlines,
    assess_match,
    assess_registered,
)
from joiner.names import SPOT
from joiner.pools import NodeClaim
from joiner.pools.registration_health import REGISTERED
from joiner.reporting import registration_events as reporting
from joiner.reporting.events import Event


@dataclass(frozen=True, slots=True)
class ClaimProgress:
    """The state of one claim in this check, with its log line and its events."""

    claim: NodeClaim
    stage: Stage
    message: str
    _: KW_ONLY
    node: Node | None = None
    events: tuple[Event, ...] = field(default=())
    fresh: bool = False
    """The node was registered in this check: its kubelet may not know yet that the taint of unregistered nodes is
    removed.
    """
    outcome: str = ""
    """Why its launch counts as a success or a failure since this check (`joiner.pools.registration_health`)."""
    trouble: str = ""
    """The reason of a condition, if the claim's node will probably not join; `message` is then the cause."""
    postponed: bool = False
    """No time was left for the claim in this check."""
    settling: bool = False
    """The node has its pods. It only waits until the scheduler has read their bindings."""
    opens_at: datetime | None = None
    """When the node, which has its pods, opens if other nodes of the wave do not have theirs before."""

    @property
    def joins(self) -> bool:
        """Return whether it has one node, which the next check may register."""
        return self.node is not None and not self.trouble


class NodeRegistration:
    """Registers nodes, one at a time."""

    def __init__(self, kube: Kube, records: JoiningRecords, now: datetime) -> None:
        self._kube = kube
        self._records = records
        self._now = now

    def register(self, match: ClaimAndNode) -> ClaimProgress:
        """Return the progress of one claim; after a failed API call the claim stays in its stage until the next
        check."""
        progress = self._progress(match)
        if progress.stage in ("waiting", "registered") and (
            late := assess_deadlines(progress.claim, progress.message, self._now)
        ):
            return self._give_up(progress, late)
        return self._report_trouble(progress) if progress.trouble else progress

    def _report_trouble(self, progress: ClaimProgress) -> ClaimProgress:
        """Write why the claim waits, if that is new.

        A condition that is True stays so: what has registered or taken pods is not judged by its deadline again. The
        event is then the report.
        """
        claim, trouble = progress.claim, progress.trouble
        name = CONDITION_OF_TROUBLE[trouble]
        if name == "Initialized" and not node_deadlines.initialization_overdue(claim, self._now):
            return progress
        known, event = claim.conditions[name], reporting.report_trouble(claim, trouble, progress.message)
        if known.true:
            return replace(progress, events=(*progress.events, event))
        if (known.reason, known.message) == (trouble, progress.message):
            return progress
        claim = claim.with_condition(name, "Unknown", trouble, progress.message, at=self._now)
        try:
            claim = write_status(self._kube, claim)
        except KubeError as refusal:
            return replace(progress, message=f"{progress.message}; could not be reported now: {refusal}")
        return replace(progress, claim=claim, events=(*progress.events, event))

    def _progress(self, match: ClaimAndNode) -> ClaimProgress:
        claim, assessed = match.claim, assess_match(match)
        if isinstance(assessed, Node):
            try:
                return self._with_node(claim, assessed)
            except KubeError as reason:
                return ClaimProgress(claim, "waiting", f"could not be joined now: {reason}", node=assessed)
        progress = ClaimProgress(claim, assessed.stage, assessed.message, node=match.node, trouble=assessed.trouble)
        return self._give_up(progress, assessed) if assessed.failure else progress

    def _give_up(self, progress: ClaimProgress, assessed: RegistrationProgress) -> ClaimProgress:
        """Give up the claim's node, so that its pods are planned again and no wave awaits it.

        The condition is written last: without it, the claim is checked again.
        """
        claim, reason, message = progress.claim, assessed.failure, assessed.message
        if failure_reason(claim) == reason:
            return replace(progress, stage="failed", message=message)
        known = progress.message if progress.trouble or reason != REGISTRATION_TIMEOUT else ""
        event = reporting.report_failure(claim, reason, known)
        try:
            event = self._note_failed(progress, reason, event)
            self._records.unassign(claim.name)
            claim = claim.with_condition(CONDITION_OF_REASON[reason], "False", reason, event.note, at=self._now)
            claim = write_status(self._kube, claim)
        except CALL_FAILURES as refusal:
            return replace(progress, stage="waiting", message=f"{message}; could not be given up now: {refusal}")
        events, outcome = (*progress.events, event), reason if reason == REGISTRATION_TIMEOUT else ""
        return replace(progress, claim=claim, stage="failed", message=message, events=events, outcome=outcome)

    def _note_failed(self, progress: ClaimProgress, reason: str, event: Event) -> Event:
        """Count the failure of a node that never became ready, by which its pool may be held; return the claim's event
        with the end of the hold. A node that is gone counts unless its spot instance may have been interrupted, or it
        was ready before.
        """
        claim, node = progress.claim, progress.node
        if reason == NODE_GONE and (claim.capacity_type == SPOT or claim.initialized):
            return event
        device = missing_device(claim, node) if node and progress.trouble == RESOURCE_NOT_REGISTERED else ""
        hold = self._records.note_failed(claim, device, event.note)
        return replace(event, note=f"{event.note}{reporting.describe_hold(hold)}") if hold else event

    def _with_node(self, claim: NodeClaim, node: Node) -> ClaimProgress:
        events: list[Event] = []
        fresh, outcome = not is_registered(node), "" if claim.registered else REGISTERED
        if fresh:
            if joined_without_taint(node):
                events.append(reporting.report_missing_taint(claim, node))
            node = self._patch(claim, node)
        if not claim.registered or claim.node_name != node.name:
            claim = claim.as_registered(node.name, at=self._now, opens_by=self._now + node_deadlines.INITIALIZATION)
            claim = write_status(self._kube, claim)
            events += reporting.report_registered(claim, node)
        assessed = assess_registered(claim, node)
        trouble = "" if fresh else assessed.trouble
        return ClaimProgress(
            claim,
            assessed.stage,
            assessed.message,
            node=node,
            events=tuple(events),
            fresh=fresh,
            outcome=outcome,
            trouble=trouble,
        )

    def _patch(self, claim: NodeClaim, node: Node) -> Node:
        registered = patch_node(self._kube, node, lambda current: registration_patch(claim, current))
        if registered is None:
            raise NotFound(f"node {node.name} is gone, or is another instance's now")
        return registered
