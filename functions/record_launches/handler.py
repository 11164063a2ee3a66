"""Record launches: write the result of each launch to its claims, and create the wave that awaits the nodes.

The function works from the ledger, so it also records launches of an execution that stopped. Each step can be repeated.
A launch counts as recorded only when all its claims have their result. A claim whose write fails stops neither the
other launches nor the wave.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.record_launches.launch_recorder import LaunchRecorder, RecordedLaunch
from joiner.adapters import documents, environment
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_pools import write_usage
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.registration_records import record_registrations
from joiner.adapters.store import Store
from joiner.adapters.wave_records import limit_wave
from joiner.lifecycle.claim_progress import find_claims_to_await
from joiner.lifecycle.node_deadlines import WATCHED_FOR
from joiner.lifecycle.planning_back_off import keys_of_refused_claims
from joiner.planning import Snapshot
from joiner.pools import NodeClaim
from joiner.pools.registration_health import LAUNCH_FAILED
from joiner.reporting.events import Event

logger = Logger()
environment.prepare_clients("dynamodb", "s3")

POOLS_AND_CLASSES: Final = (*kinds.POOLS, *kinds.NODE_CLASSES)


class LaunchRecording:
    """One recording; its dependencies are arguments, which tests replace."""

    def __init__(
        self, kube: Kube, ledger: Ledger, answers: PlanningBackOffs, store: Store, time_left: TimeLeft = UNBOUNDED
    ) -> None:
        self._time_left = time_left
        self._kube = kube
        self._ledger = ledger
        self._answers = answers
        self._store = store

    def answer(
        self, task: Task, snapshot: str, now: datetime, lease_until: int, *, part: str = "launched"
    ) -> dict[str, Any]:
        """Return ``{"launched", "short", "failed", "again", "later", "throttled", "launching", "waiting",
        "pricePerHour", "events"}``.

        `part` is the name under which the events are stored. Raises LeaseLost if another execution holds the lease now.
        """
        lease = self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        assigned = {claim: each.classes for claim, each in self._ledger.assignments().items()}  # some are deleted below
        launches = [launch for launch in self._ledger.unrecorded_launches() if not launch.unreadable]
        claims, world = list_claims(self._kube).claims, self._read_pools(task)
        catalogue = documents.get_catalogue(self._store)
        recorder = LaunchRecorder(self._kube, self._ledger, catalogue, world, now, time_left=self._time_left)
        known = [(launch, content) for launch in launches if (content := recorder.content(launch)) is not None]
        results: list[RecordedLaunch] = []
        for launch, content in known:
            if launch.closed and (not results or not self._time_left.over):  # the next pass records the others
                results.append(recorder.record(launch, content, claims))
        recorded = {claim.name: claim for result in results for claim in result.launched}
        forgotten = {name for result in results for name in result.forgotten}
        standing = [recorded.get(claim.name, claim) for claim in claims if claim.name not in forgotten]
        waiting = self._await(task, standing, now)
        in_vain = {name for result in results if result.failed for name in result.forgotten if name in result.counted}
        if classes := keys_of_refused_claims(claims, in_vain, assigned):
            self._answers.refuse(documents.get_pending_classes(self._store, snapshot), classes, int(now.timestamp()))
        # Last: until a wave awaits its nodes, the sweep must still see the launch
        self._mark(results, {launch.id: launch for launch in launches}, int(now.timestamp()))
        for trouble in write_usage(self._kube, standing, world.pools):
            logger.warning("a pool's status could not be written", reason=trouble)
        events = [event for result in results for event in result.events]
        events += self._record_failures([claim for claim in claims if claim.name in in_vain], now)
        return {
            "launched": sum(result.written for result in results),
            "short": sum(result.short for result in results),
            "failed": sum(result.failed for result in results),
            "again": any(result.short or result.again for result in results) or len(results) < len(known),
            "later": any(result.later or result.unanswered for result in results)
            or any(not launch.closed for launch in launches),
            "throttled": any(result.later for result in results),
            "launching": lease.launches_ended != f"{task.lease_number}/{task.round}",
            "waiting": len(waiting),
            "pricePerHour": round(sum(result.price_per_hour for result in results), 6),
            "events": documents.put_events(self._store, task, part, events),
        }

    def _mark(self, results: Sequence[RecordedLaunch], launches: Mapping[str, LaunchRecord], at: int) -> None:
        """Mark the launches that are recorded, and on the others what was counted and which tries failed."""
        for result in results:
            if result.complete:
                self._ledger.mark_recorded(result.launch, at)
            elif result.failing:
                before = launches[result.launch]
                counted = {*before.counted, *result.counted}
                self._ledger.note_incomplete(result.launch, before.failed_writes.plus(at), counted)

    def _read_pools(self, task: Task) -> Snapshot:
        lists = {kind.plural: self._kube.list(kind) for kind in POOLS_AND_CLASSES}
        return Snapshot.from_lists(lists, ip_family=task.cluster.ip_family)

    def _await(self, task: Task, claims: Sequence[NodeClaim], now: datetime) -> list[str]:
        """Write the wave: every in-flight claim, and every claim given up recently, that no other running execution
        awaits. Claims that the wave contains already stay in it.
        """
        at = int(now.timestamp())
        waves = self._ledger.waves()
        living = at - int(WATCHED_FOR.total_seconds())
        awaited = self._ledger.awaited_claims(
            wave for wave in waves if wave.name == task.execution.name or wave.seen_at >= living
        )
        own = set(awaited.pop(task.execution.name, ()))
        watched = {name for names in awaited.values() for name in names}
        wanted = find_claims_to_await(claims, own=own, watched=watched, now=now)
        mine = limit_wave(wanted)
        if len(mine) < len(wanted):  # the sweep starts an execution that awaits them
            logger.warning("more claims than one wave holds", awaited=len(mine), left=len(wanted) - len(mine))
        if mine or own:
            self._ledger.begin_wave(task.execution.name, task.execution.arn, mine, at)
        return mine

    def _record_failures(self, claims: Sequence[NodeClaim], now: datetime) -> list[Event]:
        """Record in the pools that no instance was launched for these claims, and another plan does not help."""
        events, unwritten = record_registrations(self._kube, ((claim, LAUNCH_FAILED) for claim in claims), now)
        for reason in unwritten:
            logger.warning("the failed launches could not be recorded", reason=reason)
        return events


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    parts = (
        environment.kube(task.cluster),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
    )
    recording = LaunchRecording(*parts, environment.time_left(context))
    part = f"launched-{event['pass']}" if "pass" in event else "launched"
    answer = recording.answer(task, str(event["snapshot"]), now, environment.lease_end(context, now), part=part)
    logger.info("recorded launches", **answer)
    return answer
