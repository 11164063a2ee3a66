"""Settle disruptions: find which marked nodes may be retired now, and open the others when their replacements fail.

It works from the ledger, so it also settles the disruptions of executions that stopped. Those of executions that still
run are theirs: one of them may be marking its nodes now. Each step can be repeated. A
retirement is recorded before the state machine starts it; if the start fails, a later call requests it again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.disruption_items import DisruptionRecord
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import index_by_name, list_claims, write_conditions
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.kube_nodes import list_nodes_by_instance, patch_node
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import call_each
from joiner.adapters.payload import Task
from joiner.adapters.retirements import Retirements
from joiner.cluster import Node
from joiner.lifecycle.claim_progress import assess_progress
from joiner.lifecycle.disruption_progress import (
    Due,
    Finished,
    LaunchFacts,
    Undone,
    Verdict,
    Waiting,
    as_kept,
    back_off_id,
    judge_disruption,
    retirement_reason,
)
from joiner.lifecycle.node_closing import untaint_patch
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason, RetirementRequest
from joiner.names import DISRUPTED
from joiner.pools import NodeClaim
from joiner.reporting import disruption_events
from joiner.reporting.events import Event
from joiner.reporting.shortened_reasons import REASON_AT_MOST

logger = Logger()

Judged = tuple[DisruptionRecord, Verdict]


@dataclass(frozen=True, slots=True)
class _Launches:
    """The claims of launches that are not recorded, and the number of the lease under which claims may still be
    launched."""

    sending: frozenset[str]
    lease: int

    def find_never_launched(self, claims: Mapping[str, NodeClaim]) -> frozenset[str]:
        """Return the names of the claims that no execution launches any more."""
        state = assess_progress(claims.values(), launching=self.sending, watched=(), lease=self.lease)
        return frozenset(claim.name for claim in state.stale)


class DisruptionSettling:
    """Finishes, undoes or continues disruptions under way; its dependencies are arguments, which tests replace."""

    def __init__(self, kube: Kube, ledger: Ledger, disruptions: Disruptions, retirements: Retirements) -> None:
        self._kube = kube
        self._ledger = ledger
        self._disruptions = disruptions
        self._retirements = retirements

    def answer(
        self, task: Task, now: datetime, *, left: Collection[str] = (), written: bool = False, paused: bool = False
    ) -> dict[str, Any]:
        """Settle the disruptions of this execution, and those of the ended executions `left` (by ARN; empty text for
        records that cannot be read). `written`: this execution has written the claims of its replacements. `paused`:
        Joiner was paused when it marked nodes or launched replacements.

        Return ``{"retire", "waiting", "requested", "undone", "finished"}``.

        `retire` are the claims to retire. `waiting` counts disruptions whose replacements are not initialized yet,
        `requested` those whose retirement has not begun yet.
        """
        settled = {task.execution.arn, *left}
        records = [record for record in self._disruptions.all() if record.execution in settled]
        sending = self._read_launches(records, now)  # before the claims: what is recorded meanwhile is on its claim
        claims = index_by_name(list_claims(self._kube).claims)
        nodes = list_nodes_by_instance(self._kube)
        tainted = _tainted_claims(claims, nodes)
        self._clear_stale_marks(claims, tainted)
        records = [self._note_written(record, task, claims, now, written=written) for record in records]
        records = [self._note_launched(record, claims) for record in records]
        facts = LaunchFacts(sending.find_never_launched(claims), self._find_ending(records, claims), paused)
        verdicts = [(record, judge_disruption(record, claims, tainted, now, facts)) for record in records]
        waiting = [verdict for _, verdict in verdicts if isinstance(verdict, Waiting)]
        return {
            "retire": self._request_retirements(verdicts, claims, now),
            "waiting": sum(not one.requested for one in waiting),
            "requested": sum(one.requested for one in waiting),
            "undone": self._undo_failed(task, verdicts, claims, nodes, now),
            "finished": self._end_finished(verdicts, claims, now),
        }

    def _note_written(
        self, record: DisruptionRecord, task: Task, claims: Mapping[str, NodeClaim], now: datetime, *, written: bool
    ) -> DisruptionRecord:
        """Return the record, and note in it that the replacements were written: one without a claim has failed then."""
        mine = written and record.execution == task.execution.arn
        if record.written or not (mine or any(name in claims for name in record.replacements)):
            return record
        if record.replacements:
            self._disruptions.note_written(record.id, int(now.timestamp()))
        return replace(record, written=True)

    def _read_launches(self, records: Iterable[DisruptionRecord], now: datetime) -> "_Launches":
        """Return what may still be launched, if any disruption waits for replacements."""
        if not any(record.replacements and not record.requests for record in records):
            return _Launches(frozenset(), 0)
        lease = self._ledger.lease()
        current = lease.number if lease.is_held(int(now.timestamp())) else lease.number + 1
        return _Launches(
            frozenset(claim for launch in self._ledger.unrecorded_launches() for claim in launch.claims), current
        )

    def _note_launched(self, record: DisruptionRecord, claims: Mapping[str, NodeClaim]) -> DisruptionRecord:
        """Return the record, and note in it which replacements have an instance: any that is gone later had one."""
        seen = {name for name in record.replacements if name in claims and claims[name].launched}
        if not seen.difference(record.launched):
            return record
        self._disruptions.note_launched(record.id, seen)
        return replace(record, launched=tuple(sorted(seen.union(record.launched))))

    def _find_ending(
        self, records: Iterable[DisruptionRecord], claims: Mapping[str, NodeClaim]
    ) -> dict[str, RetirementReason]:
        """Return the most urgent reason of the retirement of each replacement that is being deleted."""
        awaited = {name for record in records if not record.requests for name in record.replacements}
        deleting = {name for name in awaited if name in claims and claims[name].deleting}
        if not deleting:
            return {}
        known = {
            name: [each for each in RetirementReason if each in one.reasons]
            for name, one in self._retirements.all().items()
            if name in deleting
        }
        return {name: max(reasons, key=lambda each: each.urgency) for name, reasons in known.items() if reasons}

    def _clear_stale_marks(self, claims: Mapping[str, NodeClaim], tainted: Collection[str]) -> None:
        """Remove the conditions of disruptions of which nothing else is left.

        The records are read after the claims: each is written before its conditions.
        """
        kept = {name: as_kept(claim) for name, claim in claims.items() if name not in tainted and not claim.deleting}
        if not any(kept.values()):
            return
        mine = {claim for record in self._disruptions.all() for claim in record.claims}
        stale = [claim for name, claim in kept.items() if claim is not None and name not in mine]
        for claim, answer in call_each(stale, self._write, KubeError):
            if isinstance(answer, KubeError):  # the next call tries again
                logger.warning("a condition could not be removed", nodeclaim=claim.name, reason=str(answer))

    def _end_finished(self, verdicts: Sequence[Judged], claims: Mapping[str, NodeClaim], now: datetime) -> int:
        """Record the moves off the nodes whose retirement has begun; end the disruptions without other nodes."""
        for record, _ in verdicts:
            begun = [name for name in record.claims if name not in claims or claims[name].deleting]
            for name in begun if record.requests else ():
                self._disruptions.note_moves(record, name, int(now.timestamp()))
        finished = [record for record, verdict in verdicts if isinstance(verdict, Finished)]
        for record in finished:
            self._disruptions.end(record.id)
        return len(finished)

    def _request_retirements(
        self, verdicts: Sequence[Judged], claims: Mapping[str, NodeClaim], now: datetime
    ) -> list[dict[str, Any]]:
        """Record the requests of disruptions that are due; return them."""
        requests: list[dict[str, Any]] = []
        for record, verdict in verdicts:
            if isinstance(verdict, Due) and (not requests or len(requests) + len(verdict.claims) <= RETIRED_AT_ONCE):
                self._disruptions.ask(record.id, int(now.timestamp()))
                requests += [_request(record, claims[name]) for name in verdict.claims]
        return requests

    def _undo_failed(
        self,
        task: Task,
        verdicts: Sequence[Judged],
        claims: Mapping[str, NodeClaim],
        nodes: Mapping[str, Node],
        now: datetime,
    ) -> list[dict[str, Any]]:
        """Undo disruptions that failed, and publish why; return the claims and reasons of those that are undone.

        The pool's back-off is recorded first: a node without its taint does not show that a replacement failed. A
        disruption with a node that cannot be opened keeps its record, so that the next call tries again.
        """
        undone: list[dict[str, Any]] = []
        events: list[Event] = []
        for record, verdict in verdicts:
            if not isinstance(verdict, Undone):
                continue
            kept = [claims[name] for name in verdict.claims]
            if verdict.failed and not record.failed_at:
                self._back_off(record, kept, verdict.why, now)
            if errors := self._open(kept, nodes):
                logger.warning("a disruption could not be undone", nodeclaims=list(verdict.claims), reason=errors[0])
                continue
            self._disruptions.end(record.id)
            events += _events_of_failure(record, kept, nodes, verdict.why)
            undone.append({"claims": list(verdict.claims), "why": verdict.why[:REASON_AT_MOST]})
            logger.warning("a disruption is undone", nodeclaims=list(verdict.claims), reason=verdict.why)
        for unwritten in publish_events(self._kube, events, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=unwritten)
        return undone

    def _open(self, claims: Sequence[NodeClaim], nodes: Mapping[str, Node]) -> list[str]:
        """Remove the taints and the conditions; return why some could not be removed."""
        mine = [nodes[claim.provider_id] for claim in claims if claim.provider_id in nodes]
        opened = call_each([node for node in mine if not node.deletion], self._untaint, KubeError)
        cleared = [kept for claim in claims if (kept := as_kept(claim)) is not None]
        answers = [*opened, *call_each(cleared, self._write, KubeError)]
        return [str(answer) for _, answer in answers if isinstance(answer, KubeError)]

    def _untaint(self, node: Node) -> None:
        patch_node(self._kube, node, untaint_patch)

    def _write(self, claim: NodeClaim) -> None:
        with suppress(NotFound):
            write_conditions(self._kube, claim)

    def _back_off(self, record: DisruptionRecord, claims: Iterable[NodeClaim], why: str, now: datetime) -> None:
        """Record the back-off of the pools of the nodes and of the replacements that failed, and on the disruption that
        it counts.

        If a node cannot be opened, the next call finds the same failure.
        """
        launching = () if record.requests else record.replacing_pools  # the replacements ran before the first request
        pools = {*launching, *(claim.pool_key for claim in claims if claim.pool_key)}
        for pool in sorted(pools):
            self._ledger.back_off(back_off_id(pool), why, int(now.timestamp()))
        self._disruptions.note_failure(record.id, int(now.timestamp()))


def _tainted_claims(claims: Mapping[str, NodeClaim], nodes: Mapping[str, Node]) -> frozenset[str]:
    of_claims = ((claim.name, nodes.get(claim.provider_id)) for claim in claims.values())
    return frozenset(name for name, node in of_claims if node is not None and node.has_taint(DISRUPTED))


def _events_of_failure(
    record: DisruptionRecord, claims: Sequence[NodeClaim], nodes: Mapping[str, Node], why: str
) -> list[Event]:
    return [
        event
        for claim in claims
        for event in disruption_events.report_undone(claim, nodes.get(claim.provider_id), record.reason, why)
    ]


def _request(record: DisruptionRecord, claim: NodeClaim) -> dict[str, Any]:
    return RetirementRequest(claim.name, retirement_reason(record.reason), claim.instance_id).to_json()


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    settling = DisruptionSettling(
        environment.kube(task.cluster), environment.ledger(), environment.disruptions(), environment.retirements()
    )
    paused = bool(event.get("paused"))
    left = [str(arn) for arn in event.get("left", ())]
    answer = settling.answer(task, environment.now(), left=left, written=bool(event.get("written")), paused=paused)
    logger.info("settled disruptions", **answer)
    return answer
