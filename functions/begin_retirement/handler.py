"""Begin retirement: taint the nodes of claims and delete the claims.

Each request is checked again first. A voluntary retirement needs the lease, gives way to pods, and is undone if a pod
was bound before the node was tainted. The order of the steps allows the function to stop at any point. First the ledger
records which execution retires the claim. An involuntary retirement then deletes the claim; every sweep finds a deleted
claim. A voluntary retirement deletes the claim last, when nothing can be undone any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.begin_retirement.candidates import RetirementCandidate, RetirementCandidates
from functions.begin_retirement.noted_retirements import take_noted_claims
from joiner.adapters import environment, metrics
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import get_claim, kind_of, write_status
from joiner.adapters.kube_errors import Forbidden, KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.kube_nodes import patch_node
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import REASON_AT_MOST, Task
from joiner.adapters.retirements import Retirements
from joiner.cluster import Node
from joiner.lifecycle.other_autoscalers import refusal_reason
from joiner.lifecycle.registration import is_registered
from joiner.lifecycle.retirement import (
    STILL_LAUNCHED,
    RetirementReason,
    RetirementRequest,
    RetirementStage,
    RetiringClaim,
    first_stage,
    taint_patch,
    untaint_patch,
    with_deadline,
)
from joiner.names import TERMINATION_TIMESTAMP
from joiner.pools import NodeClaim
from joiner.reporting import retirement_events as telling
from joiner.reporting.events import Event
from joiner.reporting.retirement_events import ENDED_AT_LAUNCH

logger = Logger()

NO_TIME: Final = "no time was left; the sweep asks again"

WAVE: Final = 20
"""Nodes that one function drains at the same time. Empty nodes need few calls and are one wave, which saves state
transitions."""

BEGUN_AT_ONCE: Final = 100
"""Maximum of claims in one execution, the same as the sweep's. All entries are one result; 256 KiB hold about 250 of
the longest.
"""


@dataclass(frozen=True, slots=True)
class BegunRetirement:
    """One claim whose retirement has begun, the number of pods that must move, and the events."""

    retiring: RetiringClaim
    moving: int
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedClaim:
    """One claim that is not retired now, and why."""

    claim: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"claim": self.claim, "why": self.why[:REASON_AT_MOST]}


class RetirementStart:
    """The start of several retirements; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        retirements: Retirements,
        guards: AutoscalerDetection,
        time_left: TimeLeft = UNBOUNDED,
    ) -> None:
        self._time_left = time_left
        self._kube = kube
        self._guards = guards
        self._ledger = ledger
        self._retirements = retirements

    def answer(self, task: Task, asked: list[RetirementRequest], now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"refused", "waves", "begun", "moving", "later", "beyond", "leftOut"}``.

        Raises:
            LeaseLost: a lease is needed and another execution holds it now.
        """
        if task.lease_number:
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        asked, beyond = asked[:BEGUN_AT_ONCE], asked[BEGUN_AT_ONCE:]
        if refused := refusal_reason(self._guards.look(now)):
            return {
                "refused": refused,
                "waves": [],
                "begun": 0,
                "moving": 0,
                "later": 0,
                "beyond": len(beyond),
                "leftOut": [SkippedClaim(one.claim, refused).to_json() for one in asked] + _beyond(beyond),
            }
        around = RetirementCandidates.read(self._kube, self._ledger, asked, now, leased=bool(task.lease_number))
        answers, unseen = call_each_in_time(
            around.cases(asked), lambda case: self._begin(task, case, around, now), KubeError, self._time_left
        )
        begun: list[BegunRetirement] = []
        left = [SkippedClaim(case.asked.claim, NO_TIME) for case in unseen]
        for case, answer in answers:
            match answer:
                case BegunRetirement():
                    begun.append(answer)
                case SkippedClaim():
                    left.append(answer)
                case KubeError():  # the sweep asks again
                    left.append(SkippedClaim(case.asked.claim, str(answer)))
        for untold in publish_events(
            self._kube, [event for one in begun for event in one.events], at=now, instance=task.execution.name
        ):
            logger.warning("an event could not be written", reason=untold)
        for one_left in left:
            logger.info("not retired", nodeclaim=one_left.claim, reason=one_left.why)
        return {
            "refused": "",
            "waves": _waves(begun),
            "begun": len(begun),
            "moving": sum(one.moving for one in begun),
            "later": sum(one.why == STILL_LAUNCHED for one in left),
            "beyond": len(beyond),
            "leftOut": [one.to_json() for one in left] + _beyond(beyond),
        }

    def _begin(
        self, task: Task, case: RetirementCandidate, around: RetirementCandidates, now: datetime
    ) -> BegunRetirement | SkippedClaim:
        """Begin one retirement; a claim whose retirement could not begin loses its owner, so that another execution can
        take it.
        """
        try:
            return self._begin_one(task, case, around, now)
        except KubeError:
            self._retirements.disown(case.asked.claim, task.execution.arn)
            raise

    def _begin_one(
        self, task: Task, case: RetirementCandidate, around: RetirementCandidates, now: datetime
    ) -> BegunRetirement | SkippedClaim:
        asked, owner = case.asked, task.execution.arn
        if why := around.objection(case):
            self._take_back(case, owner)
            return SkippedClaim(asked.claim, why)
        noted = self._retirements.begin(
            asked.claim, owner, str(asked.reason), int(now.timestamp()), ends_by=task.execution.ends_by
        )
        if noted is None:
            return SkippedClaim(asked.claim, "another execution retires it")
        if case.voluntary:
            node = self._close(case.node)
            if why := around.again(self._kube, case):
                self._take_back(case, owner)
                return SkippedClaim(asked.claim, why)
            claim, unclosed = self._delete(case.claim, asked.reason), list[Event]()
        else:
            claim = self._delete(case.claim, asked.reason)
            node, unclosed = self._close_if_allowed(case)
        if noted.said and claim is not None:
            claim = self._say_why(claim, noted.said, now)
        retiring = self._entry(case, claim, node, noted.since)
        moving = (
            around.moving(case, claim, noted.deadline, now) if retiring.stage is not RetirementStage.TERMINATED else 0
        )
        events = (telling.report_retirement(claim, node, asked.reason) if claim is not None else []) + unclosed
        if noted.said and claim is not None and claim.pool:
            events += telling.report_ended_at_launch(claim, noted.said)
        logger.info(
            "retirement begins",
            nodeclaim=asked.claim,
            node=retiring.node,
            instance=retiring.instance,
            reason=str(asked.reason),
        )
        return BegunRetirement(retiring, moving, tuple(events))

    def _say_why(self, claim: NodeClaim, said: str, now: datetime) -> NodeClaim:
        """Return the claim with a condition that gives the reason why its instance ended."""
        if claim.registered:
            return claim
        after = claim.with_condition("Registered", "False", ENDED_AT_LAUNCH, said, at=now)
        try:
            write_status(self._kube, after)
        except NotFound:
            return claim
        return after

    def _entry(
        self, case: RetirementCandidate, claim: NodeClaim | None, node: Node | None, since: int
    ) -> RetiringClaim:
        instance = (
            (claim.instance_id if claim else "") or (case.node.instance_id if case.node else "") or case.asked.instance
        )
        return RetiringClaim(
            claim=case.asked.claim,
            reason=case.asked.reason,
            kind=claim.kind if claim else "",
            instance=instance,
            node=node.name if node else "",
            since=since,
            launched=_launched(claim),
            stage=first_stage(case.asked.reason, instance, node),
        )

    def _delete(self, claim: NodeClaim | None, reason: RetirementReason) -> NodeClaim | None:
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
        if claim is not None and (dated := with_deadline(claim, reason)) is not None:
            annotation = {TERMINATION_TIMESTAMP: dated.annotations[TERMINATION_TIMESTAMP]}
            self._kube.patch(kind_of(claim), claim.name, {"metadata": {"annotations": annotation}})
            return dated
        return claim

    def _close(self, node: Node | None) -> Node | None:
        return patch_node(self._kube, node, taint_patch) if node is not None else None

    def _close_if_allowed(self, case: RetirementCandidate) -> tuple[Node | None, list[Event]]:
        """Return the tainted node and no event, or None and events if the cluster refuses to taint a node that never
        registered.

        Such a node has no pool label, or a label of a managed node group: the admission policies let Joiner change
        neither. Its claim is already deleted, so the node never gets the label. The instance is terminated as if it had
        no node, and the node's pods end with it.
        """
        try:
            return self._close(case.node), []
        except Forbidden as reason:
            node, claim = case.node, case.claim
            if node is None or is_registered(node) or (claim is not None and claim.registered):
                raise
            logger.warning(
                "a node that never registered may not be closed",
                node=node.name,
                nodeclaim=case.asked.claim,
                reason=str(reason),
            )
            return None, telling.report_refused_taint(claim, node, str(reason))

    def _take_back(self, case: RetirementCandidate, owner: str) -> None:
        """Undo all steps of a retirement that does not happen; an execution that crashed may have tainted the node."""
        if (
            case.claim is not None
            and not case.claim.deleting
            and (node := case.newest(self._kube)) is not None
            and not node.deletion
        ):
            patch_node(self._kube, node, untaint_patch)
        self._retirements.give_up(case.asked.claim, owner, str(case.asked.reason))


def _waves(begun: Sequence[BegunRetirement]) -> list[list[dict[str, Any]]]:
    """Return the entries in waves; empty nodes are one wave, because they need few calls each."""
    empty = all(one.retiring.reason is RetirementReason.EMPTY for one in begun)
    entries, size = [one.retiring.to_json() for one in begun], BEGUN_AT_ONCE if empty else WAVE
    return [entries[start : start + size] for start in range(0, len(entries), size)]


def _beyond(asked: Sequence[RetirementRequest]) -> list[dict[str, str]]:
    """Return one entry that counts the claims above the limit of one execution; the next sweep finds them again."""
    if not asked:
        return []
    logger.warning("more claims than one execution retires", left=len(asked), first=asked[0].claim)
    why = f"{len(asked)} claims are more than one execution retires ({BEGUN_AT_ONCE}): the next one takes them"
    return [SkippedClaim(asked[0].claim, why).to_json()]


def _launched(claim: NodeClaim | None) -> int:
    moment = claim.conditions["Launched"].since if claim is not None and claim.conditions.true("Launched") else None
    return int(moment.timestamp()) if moment is not None else 0


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    now = environment.now()
    kube = environment.kube(task.cluster)
    beginning = RetirementStart(
        kube, environment.ledger(), environment.retirements(), AutoscalerDetection(kube), environment.time_left(context)
    )
    asked = [RetirementRequest.from_json(each) for each in event["claims"]]
    if event.get("noted"):
        asked += take_noted_claims(environment.retirements().all().values(), owner=task.execution.arn, now=now)
    answer = beginning.answer(task, asked, now, environment.lease_end(context, now))
    logger.info("began retirement", begun=answer["begun"], moving=answer["moving"], leftOut=len(answer["leftOut"]))
    metrics.publish(task.cluster.name, {"NodesRetiring": answer["begun"]})
    return answer
