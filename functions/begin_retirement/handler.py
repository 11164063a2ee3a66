"""Begin retirement: taint the nodes of claims and delete the claims.

Each request is checked again first. A voluntary retirement needs the lease, gives way to pods, and is undone if a pod
was bound before the node was tainted. The order of the steps allows the function to stop at any point. First the ledger
records which execution retires the claim. An involuntary retirement then deletes the claim; every sweep finds a deleted
claim. A voluntary retirement deletes the claim last, when nothing can be undone any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.begin_retirement.cluster_reading import read_cluster
from functions.begin_retirement.retirement_undoing import RetirementUndoing
from functions.begin_retirement.rollout_objections import find_blocked_rollout
from joiner.adapters import environment, metrics
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.call_failures import CALL_FAILURES, is_lasting
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.joining_records import JoiningRecords
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import get_claim, kind_of, write_status
from joiner.adapters.kube_errors import Forbidden, KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.kube_nodes import list_pods_on, patch_node
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Retirement
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.adapters.registration_records import record_registrations
from joiner.adapters.retirements import Retirements
from joiner.cluster import Node
from joiner.lifecycle.boot_failures import BootFailure, counts_for_pool, find_boot_failure
from joiner.lifecycle.interrupted_claims import take_noted_claims
from joiner.lifecycle.node_closing import taint_patch
from joiner.lifecycle.other_autoscalers import refusal_reason
from joiner.lifecycle.recorded_retirement import is_about
from joiner.lifecycle.registration import is_registered
from joiner.lifecycle.retirement import (
    OF_A_DISRUPTION,
    RETIRED_AT_ONCE,
    STILL_LAUNCHED,
    RetirementReason,
    RetirementRequest,
    RetirementStage,
    RetiringClaim,
    with_deadline,
)
from joiner.lifecycle.retirement_candidates import RetirementCandidate, RetirementRules
from joiner.lifecycle.retirement_waves import describe_claims_over_limit, split_into_waves
from joiner.names import TERMINATION_TIMESTAMP
from joiner.pools import NodeClaim
from joiner.reporting import retirement_events
from joiner.reporting.events import Event
from joiner.reporting.registration_events import describe_hold
from joiner.reporting.shortened_reasons import REASON_AT_MOST

logger = Logger()

NO_TIME: Final = "no time was left; the sweep asks again"


@dataclass(frozen=True, slots=True)
class BegunRetirement:
    """One claim whose retirement has begun, the number of pods that must move, and the events."""

    retiring: RetiringClaim
    moving: int
    events: tuple[Event, ...] = ()
    boot_failure: tuple[NodeClaim, str] | None = None
    """The claim whose node never registered, and the reason, once."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a retirement may not begin."""

    why: str


@dataclass(frozen=True, slots=True)
class SkippedClaim:
    """One claim that is not retired now, and why."""

    claim: str
    why: str

    def to_json(self) -> dict[str, str]:
        """Return the JSON form of the value."""
        return {"claim": self.claim, "why": self.why[:REASON_AT_MOST]}


class RetirementStart:
    """The start of several retirements; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        retirements: Retirements,
        disruptions: Disruptions,
        guards: AutoscalerDetection,
        *,
        time_left: TimeLeft = UNBOUNDED,
    ) -> None:
        self._time_left = time_left
        self._kube = kube
        self._guards = guards
        self._ledger = ledger
        self._retirements = retirements
        self._disruptions = disruptions
        self._undoing = RetirementUndoing(kube, retirements, disruptions)

    def answer(self, task: Task, requests: list[RetirementRequest], now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"refused", "waves", "begun", "moving", "later", "overLimit", "skipped"}``.

        Raises:
            LeaseLost: a lease is needed and another execution holds it now.
        """
        if task.lease_number:
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        requests, over_limit = requests[:RETIRED_AT_ONCE], requests[RETIRED_AT_ONCE:]
        if refused := refusal_reason(self._guards.detect(now)):
            return _answer([], [SkippedClaim(request.claim, refused) for request in requests], over_limit, refused)
        begun, skipped = self._begin_each(task, requests, now)
        failed = [one.boot_failure for one in begun if one.boot_failure is not None]
        of_pools, unrecorded = record_registrations(self._kube, failed, now)
        for reason in unrecorded:
            logger.warning("the registration of nodes could not be recorded", reason=reason)
        events = [*(event for one in begun for event in one.events), *of_pools]
        for unwritten in publish_events(self._kube, events, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=unwritten)
        for one in skipped:
            logger.info("not retired", nodeclaim=one.claim, reason=one.why)
        return _answer(begun, skipped, over_limit)

    def _begin_each(
        self, task: Task, requests: Sequence[RetirementRequest], now: datetime
    ) -> tuple[list[BegunRetirement], list[SkippedClaim]]:
        records = JoiningRecords(self._kube, self._ledger, int(now.timestamp()))
        candidates, rules = read_cluster(self._kube, self._ledger, requests, now, leased=bool(task.lease_number))
        outcomes, without_time = call_each_in_time(
            candidates,
            lambda candidate: self._begin(task, candidate, rules, records, now),
            CALL_FAILURES,
            self._time_left,
        )
        begun: list[BegunRetirement] = []
        skipped = [SkippedClaim(candidate.request.claim, NO_TIME) for candidate in without_time]
        for candidate, outcome in outcomes:
            match outcome:
                case BegunRetirement():
                    begun.append(outcome)
                case SkippedClaim():
                    skipped.append(outcome)
                case _:  # the sweep requests it again
                    skipped.append(SkippedClaim(candidate.request.claim, str(outcome)))
        self._note_refusals(
            candidate.request
            for candidate, outcome in outcomes
            if isinstance(outcome, KubeError) and is_lasting(outcome)
        )
        return begun, skipped

    def _note_refusals(self, refused: Iterable[RetirementRequest]) -> None:
        """Record the refused requests of disruptions, which end after some of them. A sweep requests the claims again
        more often than settle_disruptions, and its requests do not count."""
        names = {each.claim for each in refused if each.reason in OF_A_DISRUPTION}
        for record in self._disruptions.all() if names else ():
            if record.requests and names.intersection(record.claims):
                self._disruptions.note_refusal(record.id, record.requests)

    def _begin(
        self,
        task: Task,
        candidate: RetirementCandidate,
        rules: RetirementRules,
        records: JoiningRecords,
        now: datetime,
    ) -> BegunRetirement | SkippedClaim:
        """Begin one retirement. If something objects, undo it, or begin it for a reason to which nothing may object.

        A claim whose retirement could not begin loses its owner, so that another execution can take it.
        """
        claim, owner = candidate.request.claim, task.execution.arn
        try:
            outcome = self._begin_one(task, candidate, rules, records, now)
            while isinstance(outcome, Objection):
                binding = self._undoing.take_back(candidate, owner, now)
                if binding is None:
                    return SkippedClaim(claim, outcome.why)
                logger.info("another reason counts", nodeclaim=claim, reason=str(binding), objection=outcome.why)
                candidate = replace(candidate, request=replace(candidate.request, reason=binding))
                outcome = self._begin_one(task, candidate, rules, records, now)
        except CALL_FAILURES:
            self._undoing.include(candidate)
            self._retirements.disown(claim, owner)
            raise
        return outcome

    def _begin_one(
        self,
        task: Task,
        candidate: RetirementCandidate,
        rules: RetirementRules,
        records: JoiningRecords,
        now: datetime,
    ) -> BegunRetirement | SkippedClaim | Objection:
        request = candidate.request
        if why := rules.objection(candidate):
            return Objection(why)
        if (noted := self._take(candidate, task, now)) is None:
            return SkippedClaim(request.claim, "another execution retires it")
        hold = _count_failure(records, candidate, noted)
        if candidate.voluntary:
            node = self._taint(candidate.node)
            if why := self._objection_after_taint(candidate, rules, now):
                return Objection(why)
            claim, refusals = self._delete(candidate.claim, request.reason, noted.deadline), list[Event]()
        else:
            claim = self._delete(candidate.claim, request.reason, noted.deadline)
            node, refusals = self._taint_if_allowed(candidate)
        claim, failure = self._write_failure(claim, request.reason, noted, hold, now)
        retiring = candidate.begin(claim, node, noted.since)
        gone = retiring.stage is RetirementStage.TERMINATED
        moving = 0 if gone else rules.count_moving_pods(candidate, claim, noted.deadline, now)
        logger.info(
            "retirement begins",
            nodeclaim=request.claim,
            node=retiring.node,
            instance=retiring.instance,
            reason=str(request.reason),
        )
        reported = retirement_events.report_beginning(claim, node, request.reason, noted.launch_failure, failure)
        return BegunRetirement(retiring, moving, (*reported, *refusals), _of_pool(claim, failure))

    def _take(self, candidate: RetirementCandidate, task: Task, now: datetime) -> Retirement | None:
        """Record this execution as the owner; return None if another one is. A former claim's record starts over."""
        moment, reason = int(now.timestamp()), str(candidate.request.reason)
        noted = self._retirements.begin(
            candidate.request.claim,
            task.execution.arn,
            reason,
            moment,
            instance=candidate.instance,
            ends_by=task.execution.ends_by,
            anew=candidate.claim is not None and not candidate.claim.deleting,
        )
        if noted is None or is_about(noted, candidate.instance):
            return noted
        if candidate.claim is not None and (its := candidate.claim.instance_id):
            self._retirements.start_over(noted.claim, noted.owner, reason, moment, instance=its)
        return Retirement(noted.claim, owner=noted.owner, attempt=1, since=moment)

    def _objection_after_taint(self, candidate: RetirementCandidate, rules: RetirementRules, now: datetime) -> str:
        if candidate.node is None:
            return ""
        name = candidate.node.name
        pods = list_pods_on(self._kube, [name])[name]
        return rules.objection_after_taint(candidate, pods) or find_blocked_rollout(self._kube, candidate, pods, now)

    def _write_failure(
        self, claim: NodeClaim | None, reason: RetirementReason, noted: Retirement, hold: str, now: datetime
    ) -> tuple[NodeClaim | None, BootFailure | None]:
        """Return the claim with a condition that gives the reason why its node never became ready, and that reason."""
        failure = _find_failure(claim, reason, noted)
        if claim is None or failure is None:
            return claim, None
        failure = replace(failure, message=failure.message + hold)
        after = claim.with_condition(failure.condition, "False", failure.reason, failure.message, at=now)
        try:
            after = write_status(self._kube, after)
        except NotFound:
            return claim, failure
        return after, failure

    def _delete(self, claim: NodeClaim | None, reason: RetirementReason, ends_at: int) -> NodeClaim | None:
        """Delete the claim and return it; its finalizer keeps it until its instance is gone.

        The pool's limit for the drain starts now.
        """
        if claim is None:
            return None
        if not claim.deleting:
            try:
                self._kube.delete(kind_of(claim), claim.name, uid=claim.uid)
            except NotFound:
                return None
            claim = get_claim(self._kube, claim.kind, claim.name)
        if claim is not None and (dated := with_deadline(claim, reason, ends_at)) is not None:
            annotation = {TERMINATION_TIMESTAMP: dated.annotations[TERMINATION_TIMESTAMP]}
            self._kube.patch(kind_of(claim), claim.name, {"metadata": {"annotations": annotation}})
            return dated
        return claim

    def _taint(self, node: Node | None) -> Node | None:
        return patch_node(self._kube, node, taint_patch) if node is not None else None

    def _taint_if_allowed(self, candidate: RetirementCandidate) -> tuple[Node | None, list[Event]]:
        """Return the tainted node and no event, or None and events if the cluster refuses to taint a node that never
        registered.

        Such a node has no pool label, or a label of a managed node group: the admission policies let Joiner change
        neither. Its claim is already deleted, so the node never gets the label. The instance is terminated as if it had
        no node, and the node's pods end with it.
        """
        try:
            return self._taint(candidate.node), []
        except Forbidden as reason:
            node, claim = candidate.node, candidate.claim
            if node is None or is_registered(node) or (claim is not None and claim.registered):
                raise
            logger.warning(
                "a node that never registered may not be tainted",
                node=node.name,
                nodeclaim=candidate.request.claim,
                reason=str(reason),
            )
            return None, retirement_events.report_refused_taint(claim, node, str(reason))


def _find_failure(claim: NodeClaim | None, reason: RetirementReason, noted: Retirement) -> BootFailure | None:
    if claim is None:
        return None
    return find_boot_failure(claim, reason, noted.launch_failure, noted.console, noted.state_reason)


def _of_pool(claim: NodeClaim | None, failure: BootFailure | None) -> tuple[NodeClaim, str] | None:
    """Return the failure that the claim's pool counts as a node that did not register."""
    if claim is None or failure is None or failure.repeated or failure.condition != "Registered":
        return None
    return claim, failure.reason


def _count_failure(records: JoiningRecords, candidate: RetirementCandidate, noted: Retirement) -> str:
    """Count a node that never became ready, by which its pool may be held; return the sentence about the hold.

    The claim is deleted after it: from then on its pods are planned again. The nodes of claims that were deleted before
    ended with them.
    """
    claim, reason = candidate.claim, candidate.request.reason
    failure = _find_failure(claim, reason, noted)
    if claim is None or claim.deleting or failure is None:
        return ""
    if not counts_for_pool(failure, noted.reasons, noted.state_reason):
        return ""
    hold = records.note_failed(claim, "", failure.message)
    return describe_hold(hold) if hold is not None else ""


def _answer(
    begun: Sequence[BegunRetirement],
    skipped: Sequence[SkippedClaim],
    over_limit: Sequence[RetirementRequest],
    refused: str = "",
) -> dict[str, Any]:
    return {
        "refused": refused,
        "waves": [[one.to_json() for one in wave] for wave in split_into_waves([one.retiring for one in begun])],
        "begun": len(begun),
        "moving": sum(one.moving for one in begun),
        "later": sum(one.why == STILL_LAUNCHED for one in skipped),
        "overLimit": len(over_limit),
        "skipped": [one.to_json() for one in skipped] + _report_over_limit(over_limit),
    }


def _report_over_limit(requests: Sequence[RetirementRequest]) -> list[dict[str, str]]:
    """Return one entry that counts the claims above the limit of one execution; the next sweep finds them again."""
    if not requests:
        return []
    logger.warning("more claims than one execution retires", left=len(requests), first=requests[0].claim)
    return [SkippedClaim(requests[0].claim, describe_claims_over_limit(len(requests))).to_json()]


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    now = environment.now()
    kube = environment.kube(task.cluster)
    beginning = RetirementStart(
        kube,
        environment.ledger(),
        environment.retirements(),
        environment.disruptions(),
        AutoscalerDetection(kube),
        time_left=environment.time_left(context),
    )
    requests = [RetirementRequest.from_json(each) for each in event["claims"]]
    if event.get("noted"):
        requests += take_noted_claims(environment.retirements().all().values(), owner=task.execution.arn, now=now)
    answer = beginning.answer(task, requests, now, environment.lease_end(context, now))
    logger.info("began retirement", begun=answer["begun"], moving=answer["moving"], skipped=len(answer["skipped"]))
    metrics.publish(task.cluster.name, {"NodesRetiring": answer["begun"]})
    return answer
