"""Write the outcome of one closed launch to its claims. Claims without an instance are deleted, unless a user created
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from aws_lambda_powertools import Logger

from joiner.adapters.call_failures import CALL_FAILURES, CallFailure, is_lasting
from joiner.adapters.documents import launch_of
from joiner.adapters.item_reading import BROKEN
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import delete_claim, index_by_name, write_conditions, write_metadata, write_status
from joiner.adapters.kube_errors import NotFound
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_all, call_each, call_each_in_time
from joiner.catalogue import Catalogue, compute_allocatable, compute_capacity, family_labels
from joiner.catalogue.instance_features import EFA
from joiner.launching import Launch, LaunchOutcome, PairedInstance
from joiner.lifecycle.launched_claims import launched_claim
from joiner.planning import Snapshot
from joiner.pools import NodeClaim, complete_class
from joiner.reporting import launch_events as reporting
from joiner.reporting.events import Event, Subject
from joiner.reporting.launch_conditions import with_outcome

logger = Logger(child=True)

Content = tuple[Launch, LaunchOutcome]


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """One recorded launch: its claims with an instance, and the names of deleted claims."""

    launch: str
    launched: Sequence[NodeClaim]
    _: KW_ONLY
    forgotten: Sequence[str] = ()
    written: int = 0
    """The number of claims with an instance that no earlier recording has counted."""
    counted: Sequence[str] = ()
    """The claims that this recording counts: each claim counts once, also if it takes several."""
    short: int = 0
    failed: int = 0
    later: bool = False
    """EC2 throttled the launch or had an internal error: the next plan waits."""
    price_per_hour: float = 0.0
    events: Sequence[Event] = ()
    complete: bool = True
    """False if the time ended first, or if a write failed: the next recording of the launch continues."""
    failing: bool = False
    """Whether writes failed."""
    again: bool = False
    """Whether another pass may complete it soon: no time was left, or the API server did not answer a write."""
    unanswered: bool = False
    """Whether that pass waits, because the API server did not answer a write."""


class LaunchRecorder:
    """Records launches, one at a time."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        catalogue: Catalogue,
        world: Snapshot,
        now: datetime,
        *,
        time_left: TimeLeft = UNBOUNDED,
    ) -> None:
        self._kube = kube
        self._ledger = ledger
        self._catalogue = catalogue
        self._world = world
        self._now = now
        self._time_left = time_left

    @staticmethod
    def content(record: LaunchRecord) -> Content | None:
        """Return the launch and its outcome; None if the record cannot be parsed, which does not stop other records."""
        try:
            return launch_of(record), LaunchOutcome.from_json(record.outcome) if record.closed else LaunchOutcome()
        except BROKEN as reason:
            logger.error(
                "a launch cannot be recorded: its content in the table cannot be read",
                launch=record.id,
                reason=f"{type(reason).__name__}: {reason}",
            )
            return None

    def record(self, record: LaunchRecord, content: Content, claims: Iterable[NodeClaim]) -> RecordedLaunch:
        """Write the outcome to the launch's claims. A claim whose write fails stops no other: the launch is then not
        complete, and its next recording writes what is missing.
        """
        (launch, outcome), known = content, index_by_name(claims)
        _log_lost_claims(record, outcome, known)
        with_instance = [(each, known[each.claim], launch) for each in outcome.launched if each.claim in known]
        answers, late = call_each_in_time(with_instance, self._write_launched, CALL_FAILURES, self._time_left)
        launched = [answer for _, answer in answers if isinstance(answer, NodeClaim)]
        failed = [(claim, answer) for (_, claim, _), answer in answers if isinstance(answer, CALL_FAILURES)]
        unmet = [known[name] for name in outcome.unmet if name in known]
        if late or (unmet and self._time_left.over):  # the unmet together: the caller reads the claims of all of them
            logger.warning("the time ended before a launch was recorded", launch=record.id, left=len(late) + len(unmet))
            again = not failed or record.failed_writes.repeated()
            waits = again and _is_unanswered(failed)
            return RecordedLaunch(
                record.id, launched, complete=False, failing=bool(failed), again=again, unanswered=waits
            )
        for claim, answer in call_each(unmet, lambda claim: self._write_unmet(claim, outcome), CALL_FAILURES):
            failed += [(claim, answer)] if isinstance(answer, CALL_FAILURES) else []
        forgotten = [name for name in outcome.unmet if name not in {claim.name for claim, _ in failed}]
        call_all(forgotten, self._ledger.unassign, CALL_FAILURES)
        _log_failures(record, failed)
        return self._result(record, content, known, _ClaimWrites(launched, forgotten, failed))

    def _result(
        self, record: LaunchRecord, content: Content, known: Mapping[str, NodeClaim], writes: "_ClaimWrites"
    ) -> RecordedLaunch:
        """Return what was recorded. What an earlier recording of an incomplete launch counted is not counted again."""
        (launch, outcome), complete = content, not writes.failed
        left = {claim.name for claim, _ in writes.failed}.union(record.counted)
        named = [*(each.claim for each in outcome.launched), *outcome.unmet]
        counted = {name: None for name in named if name not in left}
        written = [claim for claim in writes.launched if claim.name in counted]
        ended = [name for name in writes.forgotten if name in counted]
        owner = self._owner(launch, known) if not record.counted and (complete or counted) else None
        again = _is_unanswered(writes.failed) and record.failed_writes.repeated()
        return RecordedLaunch(
            launch=record.id,
            launched=writes.launched,
            forgotten=writes.forgotten,
            written=len(written),
            counted=tuple(counted),
            short=len(ended) if outcome.again else 0,
            failed=0 if outcome.again else len(ended),
            later=bool(ended) and outcome.later,
            price_per_hour=sum(each.price_per_hour or 0.0 for each in outcome.launched if each.claim in counted),
            events=[
                *reporting.report_outcome(outcome, written, owner),
                *reporting.report_few_choices(launch, owner),
                *(
                    reporting.report_unrecorded(claim, outcome, str(why))
                    for claim, why in writes.failed
                    if is_lasting(why)
                ),
            ],
            complete=complete,
            failing=not complete,
            again=again,
            unanswered=again,
        )

    def _owner(self, launch: Launch, known: Mapping[str, NodeClaim]) -> Subject | None:
        """Return the pool of a launch, or its standalone claim."""
        pool = next((Subject.pool(each) for each in self._world.pools if each.key == launch.pool), None)
        return pool or next((Subject.claim(each) for each in known.values() if each.key == launch.pool), None)

    def _write_unmet(self, claim: NodeClaim, outcome: LaunchOutcome) -> None:
        """Delete a claim without an instance; a standalone claim is the object of a user, and gets the reason."""
        if claim.lease:
            delete_claim(self._kube, claim)
            return
        try:
            write_conditions(self._kube, with_outcome(claim, outcome, self._now))
        except NotFound:
            return

    def _write_launched(self, each: tuple[PairedInstance, NodeClaim, Launch]) -> NodeClaim | None:
        instance, claim, launch = each
        if claim.launched:
            return claim
        known = self._catalogue.types.get(instance.instance_type)
        kind = known.with_memory(known.observed_memory.get(instance.image_id)) if known else None
        pool = next((pool for pool in self._world.pools if pool.key == claim.pool_key), None)
        declared = next((node_class for node_class in self._world.classes if node_class.ref == claim.class_ref), None)
        node_class = complete_class(declared, launch.user_template) if declared else None
        efa = bool(claim.requests.get(EFA, 0))
        after = launched_claim(
            claim,
            instance,
            labels={**(kind.labels if kind else {}), **family_labels(node_class), **launch.labels},
            capacity=compute_capacity(kind, node_class, pool, efa=efa) if kind else None,
            allocatable=compute_allocatable(kind, node_class, pool, efa=efa) if kind else None,
            at=self._now,
            zone_id=launch.zone_ids.get(instance.zone, ""),
        )
        try:
            after = write_status(self._kube, write_metadata(self._kube, after))
        except NotFound:  # a person deleted it: see _log_lost_claims
            return None
        logger.info("launched", nodeclaim=claim.name, nodepool=claim.pool, instance=instance.instance_id)
        return after


@dataclass(frozen=True, slots=True)
class _ClaimWrites:
    """What was written to the claims of one launch: those with an instance, the names of those that got none, and the
    claims whose write failed."""

    launched: Sequence[NodeClaim]
    forgotten: Sequence[str]
    failed: Sequence[tuple[NodeClaim, CallFailure]]


def _is_unanswered(failed: Iterable[tuple[NodeClaim, CallFailure]]) -> bool:
    """Return whether a write may succeed soon: it was not refused for a lasting reason."""
    return any(not is_lasting(why) for _, why in failed)


def _log_lost_claims(record: LaunchRecord, outcome: LaunchOutcome, known: Mapping[str, NodeClaim]) -> None:
    """Log the instances whose claim a person deleted during the launch: garbage collection terminates them."""
    for lost in outcome.launched:
        if lost.claim not in known:
            logger.warning(
                "an instance has lost its claim", instance=lost.instance_id, nodeclaim=lost.claim, launch=record.id
            )


def _log_failures(record: LaunchRecord, failed: Iterable[tuple[NodeClaim, CallFailure]]) -> None:
    for claim, reason in failed:
        logger.error(
            "the outcome of a launch could not be written to a claim",
            nodeclaim=claim.name,
            launch=record.id,
            reason=str(reason),
        )
