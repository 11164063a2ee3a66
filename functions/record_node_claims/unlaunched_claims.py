"""Delete the claims that were not launched and never will be, and the assignments that nothing waits for."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aws_lambda_powertools import Logger

from joiner.adapters.call_failures import CALL_FAILURES, is_lasting
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import delete_claim, get_claim
from joiner.adapters.kube_errors import Unreachable
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Assignment, LaunchRecord
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each, call_each_in_time
from joiner.adapters.payload import Task
from joiner.lifecycle.claim_progress import assess_progress
from joiner.pools import NodeClaim

logger = Logger(child=True)

SECONDS_OF_DELETIONS: Final = 10.0
"""No claim is deleted after this time, because an admission webhook may be slow: new claims wait for these deletions.
The next pass deletes the others."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What was there before this pass: assignments, launches that are not on their claims, and claims."""

    assigned: Mapping[str, Assignment]
    launches: Sequence[LaunchRecord]
    claims: Sequence[NodeClaim]

    @property
    def open_launches(self) -> list[LaunchRecord]:
        """Return the launches that are still open. They are sent again, or their instances are found by tag."""
        return [record for record in self.launches if not record.closed and not record.unreadable]


class UnlaunchedClaims:
    """Deletes claims of leases that ended. Only the lease's holder launches, and the holder is about to plan again."""

    def __init__(self, kube: Kube, ledger: Ledger, task: Task, time_left: TimeLeft = UNBOUNDED) -> None:
        self._kube = kube
        self._ledger = ledger
        self._task = task
        self._time_left = time_left

    def delete(self, standing: Standing, planned: Collection[str], now: datetime) -> list[tuple[NodeClaim, str]]:
        """Delete every claim that was not sent and never will be, except those `planned` now. Return the claims whose
        deletion the API server refuses, with the reason.

        A claim that is not deleted stops nothing. It keeps its assignment, by which the next pass finds it.
        """
        assigned, claims = standing.assigned, standing.claims
        launching = {claim for record in standing.launches for claim in record.claims}
        state = assess_progress(claims, launching=launching, watched=(), lease=self._task.lease_number + 1)
        stale = [claim for claim in state.stale if claim.name not in planned and claim.name in assigned]
        answers, late = call_each_in_time(
            stale,
            self._delete_one,
            CALL_FAILURES,
            self._time_left.at_most(SECONDS_OF_DELETIONS, time.monotonic),
        )
        deleted = {claim.name for claim, failure in answers if failure is None}
        kept = {claim.name for claim in claims if not claim.initialized and claim.name not in deleted}.union(planned)
        self._drop([name for name in assigned if name not in kept])  # those of nodes that take pods are not needed
        self._note([claim for claim, failure in answers if failure is not None], assigned, now)
        _log(answers, len(late))
        return [(claim, str(failure)) for claim, failure in answers if failure is not None and is_lasting(failure)]

    def _delete_one(self, claim: NodeClaim) -> None:
        try:
            delete_claim(self._kube, claim)
        except Unreachable:  # its answer may be all that is lost, and the assignment of a claim that is gone goes, too
            standing = get_claim(self._kube, claim.kind, claim.name)
            if standing is not None and standing.uid == claim.uid:
                raise

    def _note(self, undeleted: Iterable[NodeClaim], assigned: Mapping[str, Assignment], now: datetime) -> None:
        """Record the deletions that failed, so that the sweep starts no scale-up each minute for them."""
        at = int(now.timestamp())
        for claim, failure in call_each(
            undeleted,
            lambda claim: self._ledger.note_undeleted(claim.name, assigned[claim.name].failed_writes.plus(at)),
            CALL_FAILURES,
        ):
            if failure is not None:
                logger.warning("a failed deletion could not be noted", nodeclaim=claim.name, reason=str(failure))

    def _drop(self, names: Iterable[str]) -> None:
        """Drop assignments; the next pass drops those that are left."""
        answers, late = call_each_in_time(
            names, lambda name: self._ledger.unassign(name, self._task.lease_number), CALL_FAILURES, self._time_left
        )
        for name, failure in answers:
            if failure is not None:
                logger.warning("an assignment could not be dropped", nodeclaim=name, reason=str(failure))
        if late:
            logger.warning("no time was left to drop all assignments", left=len(late))


def _log(answers: Iterable[tuple[NodeClaim, Exception | None]], late: int) -> None:
    for claim, failure in answers:
        if failure is None:
            logger.warning(
                "a claim that was never launched is gone", nodeclaim=claim.name, nodepool=claim.pool, lease=claim.lease
            )
        else:
            logger.error(
                "a claim that was never launched could not be deleted",
                nodeclaim=claim.name,
                nodepool=claim.pool,
                lease=claim.lease,
                reason=str(failure),
            )
    if late:
        logger.warning("no time was left to delete all claims that were never launched", left=late)
