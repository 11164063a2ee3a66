"""Evict pods: one pass over nodes that are being drained. It evicts the pods that may be evicted and returns the
drained nodes.

`joiner.lifecycle.draining` decides which pods are evicted, in which order, and what a deadline changes. No state is
kept between two passes except in the API server; a second eviction of the same pod changes nothing. A node that cannot
be read does not delay the other nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.evict_pods.reopened_nodes import ClosedNode, close_nodes
from functions.evict_pods.rollout_restarts import MARK, RolloutRestarts, RolloutRound
from functions.evict_pods.volume_attachments import VolumeAttachments
from joiner.adapters import environment, metrics
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import get_claim, write_status
from joiner.adapters.kube_errors import Conflict, EvictionBlocked, KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.kube_nodes import delete_pod, list_pods_on_each
from joiner.adapters.ledger_items import Retirement
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Execution
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.drain_blockers import describe_blocker
from joiner.lifecycle.drain_waits import DrainWaits
from joiner.lifecycle.draining import (
    SELDOM,
    SOON,
    Deletion,
    Drain,
    DrainingPod,
    drain,
    drain_order,
    pause,
)
from joiner.lifecycle.recorded_retirement import is_about
from joiner.lifecycle.retirement import (
    RetirementReason,
    RetirementStage,
    RetiringClaim,
    as_detaching,
    as_draining,
    as_terminating,
    drain_deadline,
)
from joiner.lifecycle.rollout import leaves_time
from joiner.pools import NodeClaim, write_claim_status
from joiner.reporting import retirement_events
from joiner.reporting.events import Event

logger = Logger()

ASKED_AT_ONCE: Final = 400
"""A pass that has requested so many evictions begins with no further node: more would exceed the function's timeout.
The next pass does the others, and begins with those that were not tried or not refused.
"""

NO_TIME: Final = "no time was left in this pass"


@dataclass(frozen=True, slots=True)
class DrainRound:
    """The result of one pass over one node. `quiet`: nothing remains but to wait for `next_at`."""

    retiring: RetiringClaim
    asked: int = 0
    next_at: datetime | None = None
    events: tuple[Event, ...] = ()
    quiet: bool = False

    @property
    def progress(self) -> bool:
        """Return whether this pass changed anything."""
        return self.asked > 0 or self.retiring.stage is not RetirementStage.DRAINING


@dataclass(slots=True)
class CallBudget:
    """The number of evictions that this pass may still request."""

    left: int = field(default=ASKED_AT_ONCE)

    def take(self, pods: Sequence[DrainingPod]) -> Sequence[DrainingPod]:
        """Return the pods of a node, or none if the limit is reached. Otherwise pods that are always refused could keep
        the last ones of their node from being tried.
        """
        taken = pods if self.left > 0 else ()
        self.left -= len(taken)
        return taken


class PodEviction:
    """One pass over a wave; its dependencies are arguments, which tests replace."""

    def __init__(self, kube: Kube, retirements: Retirements, time_left: TimeLeft = UNBOUNDED) -> None:
        self._time_left = time_left
        self._kube = kube
        self._retirements = retirements
        self._attachments = VolumeAttachments(kube)

    def answer(
        self, execution: Execution, entries: Sequence[RetiringClaim], pause_before: int, now: datetime
    ) -> dict[str, Any]:
        """Return ``{"claims", "pause", "evicted"}``: all claims with stages, and the seconds to the next pass."""
        draining = [each for each in entries if each.stage is RetirementStage.DRAINING]
        self._attachments = VolumeAttachments(self._kube)
        self._retirements.see((one.claim for one in draining), execution.arn, int(now.timestamp()))
        noted = self._read_records(draining)
        rounds = self._rounds(draining, noted, now)
        cut_short = self._time_left.over
        self._note_progress(execution.arn, rounds, noted, int(now.timestamp()))
        for unwritten in publish_events(
            self._kube,
            [event for one_round in rounds.values() for event in one_round.events],
            at=now,
            instance=execution.name,
        ):
            logger.warning("an event could not be written", reason=unwritten)
        moments = [one_round.next_at for one_round in rounds.values() if one_round.next_at is not None]
        # What a pass has no time for may be due, and does not wait until other pods leave
        progress = cut_short or any(one_round.progress for one_round in rounds.values())
        quiet = all(one_round.quiet for one_round in rounds.values())
        return {
            "claims": [
                rounds[one.claim].retiring.to_json() if one.claim in rounds else one.to_json() for one in entries
            ],
            "pause": pause(pause_before, progress=progress, now=now, next_at=min(moments, default=None), quiet=quiet),
            "evicted": sum(one_round.asked for one_round in rounds.values()),
        }

    def _read_records(self, draining: Sequence[RetiringClaim]) -> dict[str, Retirement]:
        """Return what is recorded about these claims, by claim."""
        found = self._retirements.all() if draining else {}
        return {
            one.claim: found[one.claim]
            for one in draining
            if one.claim in found and is_about(found[one.claim], one.instance)
        }

    def _note_progress(
        self, owner: str, rounds: Mapping[str, DrainRound], noted: Mapping[str, Retirement], now: int
    ) -> None:
        """Record which claims pods left, so that they do not back off: at the first time, then once a minute."""
        progressed = {claim: noted.get(claim, Retirement(claim)) for claim, each in rounds.items() if each.asked}
        due = [claim for claim, each in progressed.items() if each.attempt or now - each.progressed_at >= SELDOM]
        self._retirements.note_progress(due, owner, now)

    def _rounds(
        self, draining: Sequence[RetiringClaim], noted: Mapping[str, Retirement], now: datetime
    ) -> dict[str, DrainRound]:
        """Return the results by claim."""
        lost = {
            one.claim for one in draining if one.claim in noted and RetirementReason.LOST in noted[one.claim].reasons
        }
        there = [one for one in draining if one.claim not in lost and one.node]
        pods = {
            node: _read_pods(found)
            for node, found in list_pods_on_each(self._kube, {one.node for one in there}).items()
        }
        # After pods are listed: pods of a node that takes the name later are not in the list
        closed = close_nodes(self._kube, there)
        there = [_note_closing(one, closed[one.claim], int(now.timestamp())) for one in there]
        budget = CallBudget()
        rounds = {
            one.claim: DrainRound(one.at(RetirementStage.DRAINED, "it has no node")) for one in draining if not one.node
        }
        rounds |= {one.claim: DrainRound(one.lost("its instance is gone")) for one in draining if one.claim in lost}
        known = {one.claim: noted.get(one.claim) or Retirement(one.claim) for one in there}
        order = {one: _order(one, pods[one.node], known[one.claim].deadline) for one in there}
        for one in sorted(there, key=lambda each: order[each]):
            if self._time_left.over:
                rounds[one.claim] = DrainRound(one.at(RetirementStage.DRAINING, NO_TIME))
                continue
            try:
                rounds[one.claim] = self._round(
                    one, known[one.claim], budget, now, closed=closed[one.claim], pods=pods[one.node]
                )
            except (KubeError, ValueError) as reason:
                logger.warning(
                    "a node could not be drained now", node=one.node, nodeclaim=one.claim, reason=str(reason)
                )
                rounds[one.claim] = DrainRound(one.at(RetirementStage.DRAINING, str(reason)))
        return rounds

    def _round(
        self,
        one: RetiringClaim,
        noted: Retirement,
        budget: CallBudget,
        now: datetime,
        *,
        closed: ClosedNode | KubeError | ValueError,
        pods: Sequence[DrainingPod] | KubeError | ValueError,
    ) -> DrainRound:
        """Return the result for one node; raise what kept its node or its pods from being read."""
        if isinstance(closed, Exception):
            raise closed
        if mismatch := closed.mismatch:
            logger.info("its node is gone", node=one.node, nodeclaim=one.claim, instance=one.instance, reason=mismatch)
            return DrainRound(one.at(RetirementStage.DRAINED, mismatch))
        if isinstance(pods, Exception):
            raise pods
        return self._drain(one, pods, noted, budget, now)

    def _drain(
        self, one: RetiringClaim, pods: Sequence[DrainingPod], noted: Retirement, budget: CallBudget, now: datetime
    ) -> DrainRound:
        claim = get_claim(self._kube, one.kind, one.claim) if one.kind else None
        until = drain_deadline(claim, noted.deadline)
        plan = drain(pods, now=now, deadline=until)
        if plan.done:
            return self._drained(one, claim, pods, until, now)
        rollouts = self._replace(one, plan.evict, noted, now)
        tried = budget.left > 0
        asked, blockers, events = self._ask(one, replace(plan, evict=tuple(rollouts.evict)), budget)
        refused_at = (int(now.timestamp()) if blockers and not asked else 0) if tried else one.refused_at
        asked, events = asked + len(rollouts.restarted), [*rollouts.events, *events]
        why = "; ".join([*plan.blockers, *blockers, *rollouts.awaited][:3]) or f"{len(plan.waiting)} pods leave"
        if plan.blockers or blockers:
            events += retirement_events.report_blocked_drain(one, claim, [*plan.blockers, *blockers])
        kept = [*plan.blockers, *blockers]
        self._write_status(claim, as_draining(claim, kept, at=now, until=until) if claim else None)
        logger.info("drains", node=one.node, nodeclaim=one.claim, waiting=len(plan.waiting), asked=asked, why=why)
        next_at = min(filter(None, (plan.next_at, rollouts.next_at)), default=None)
        here = {pod.uid[:MARK] for pod in plan.waiting}
        restarted = tuple(sorted({*rollouts.restarted, *one.restarted} & here))
        waits = one.at(RetirementStage.DRAINING, why)
        waits = replace(waits, emptied=0, opened_at=0, restarted=restarted, refused_at=refused_at)
        return DrainRound(waits, asked, next_at, tuple(events))

    def _replace(
        self, one: RetiringClaim, pods: Sequence[DrainingPod], noted: Retirement, now: datetime
    ) -> RolloutRound:
        """Return what is evicted and what rollouts replace; a retirement that cannot wait evicts all pods. `noted` has
        reasons that came later, such as an interruption.
        """
        if not leaves_time(one.reason, noted.reasons):
            return RolloutRound(evict=list(pods))
        since = datetime.fromtimestamp(one.since, UTC)
        return RolloutRestarts(self._kube, since, one.restarted, self._time_left).replace(pods, now)

    def _drained(
        self,
        one: RetiringClaim,
        claim: NodeClaim | None,
        pods: Sequence[DrainingPod],
        until: datetime | None,
        now: datetime,
    ) -> DrainRound:
        waits = DrainWaits(one, claim, until, now)
        if (ready_at := waits.pods_may_come_until) is not None:
            return DrainRound(waits.awaiting_pods(), next_at=ready_at, quiet=True)
        volumes = self._attachments.list_awaited_volumes(one.node, pods) if waits.in_time else []
        if waits.awaits(volumes):
            self._write_status(claim, as_detaching(claim, volumes, at=now) if claim else None)
            events = tuple(retirement_events.report_detaching(one, claim, volumes))
            return DrainRound(waits.awaiting(volumes), next_at=waits.volumes_awaited_until, events=events)
        in_time = waits.in_time and not volumes
        self._write_status(claim, as_terminating(claim, in_time=in_time, at=now) if claim else None)
        logger.info("is drained", node=one.node, nodeclaim=one.claim, volumes=volumes)
        return DrainRound(
            one.at(RetirementStage.DRAINED), events=tuple(retirement_events.report_terminating(one, claim))
        )

    def _ask(self, one: RetiringClaim, plan: Drain, budget: CallBudget) -> tuple[int, list[str], list[Event]]:
        """Return the number of evicted pods, the reasons that keep the others, and the events."""
        blockers: list[str] = []
        events: list[Event] = []
        taken = budget.take(plan.evict)  # the next pass evicts those for which no time is left
        evicted, _ = call_each_in_time(taken, lambda pod: self._evict(pod, one.node), KubeError, self._time_left)
        for pod, answer in evicted:
            if isinstance(answer, KubeError) and not isinstance(
                answer, NotFound | Conflict
            ):  # gone, or replaced by another pod
                blockers.append(_blocker(pod, answer))
            else:
                events.append(retirement_events.report_evicted(pod, one.node))
                events += retirement_events.report_invalid_protection(pod)
        deleted, _ = call_each_in_time(plan.delete, self._delete, KubeError, self._time_left)
        for order, answer in deleted:
            if isinstance(answer, KubeError) and not isinstance(answer, NotFound | Conflict):
                blockers.append(_blocker(order.pod, answer))
            else:
                events.append(retirement_events.report_deleted(order.pod, one.node, order.grace))
        return len(evicted) + len(deleted) - len(blockers), blockers, events

    def _evict(self, pod: DrainingPod, node: str) -> None:
        self._kube.evict(pod.namespace, pod.name, node=node, uid=pod.uid)

    def _delete(self, order: Deletion) -> None:
        pod = order.pod
        delete_pod(self._kube, pod.namespace, pod.name, uid=pod.uid, grace=order.grace)

    def _write_status(self, claim: NodeClaim | None, after: NodeClaim | None) -> None:
        """Write the claim's status if it changed. A drain does not wait for a status."""
        if claim is None or after is None or write_claim_status(claim) == write_claim_status(after):
            return
        try:
            write_status(self._kube, after)
        except NotFound:
            return
        except KubeError as reason:
            logger.warning("a claim's status could not be written", nodeclaim=claim.name, reason=str(reason))


def _note_closing(one: RetiringClaim, closed: ClosedNode | KubeError | ValueError, now: int) -> RetiringClaim:
    """Return the claim with the time when a pass first saw its node closed, or open; a node that was open is closed
    from now, if it could be closed.
    """
    if isinstance(closed, Exception):
        return one
    if not closed.was_open:
        return replace(one, closed_at=one.closed_at or now, opened_at=0)
    return replace(one, closed_at=now if closed.closed else 0, opened_at=one.opened_at or now)


def _read_pods(found: Iterable[Mapping[str, Any]] | KubeError) -> Sequence[DrainingPod] | KubeError | ValueError:
    """Return the pods of a node, or why they cannot be read."""
    if isinstance(found, KubeError):
        return found
    try:
        return [DrainingPod.from_kube(each) for each in found]
    except ValueError as invalid:
        return invalid


def _order(
    one: RetiringClaim, pods: Sequence[DrainingPod] | KubeError | ValueError, deadline: int
) -> tuple[float, ...]:
    """Return by what the nodes of a pass are ordered: by their recorded deadlines, then those for which the last pass
    had no time.

    Nodes whose evictions were all refused come last, also those with a deadline, the longest ago first: they do not use
    up each pass, and all of them are tried again.
    """
    first = (deadline or inf) if not one.refused_at else inf
    return (
        first,
        one.why != NO_TIME,
        one.refused_at,
        *drain_order([] if isinstance(pods, Exception) else pods, deadline),
    )


def _blocker(pod: DrainingPod, reason: KubeError) -> str:
    by_budget = isinstance(reason, EvictionBlocked)
    error = reason.cause if isinstance(reason, EvictionBlocked) else str(reason)
    return describe_blocker(pod.key, reason.status, error, by_budget=by_budget)


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    eviction = PodEviction(environment.kube(task.cluster), environment.retirements(), environment.time_left(context))
    entries = [RetiringClaim.from_json(each) for each in event["claims"]]
    answer = eviction.answer(task.execution, entries, int(event.get("pause", SOON)), environment.now())
    drained = sum(each["stage"] == RetirementStage.DRAINED for each in answer["claims"])
    logger.info("evicted pods", evicted=answer["evicted"], drained=drained, pause=min(answer["pause"], SELDOM))
    metrics.publish(task.cluster.name, {"PodsEvicted": answer["evicted"]})
    return answer
