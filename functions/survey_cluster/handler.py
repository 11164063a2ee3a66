"""Survey cluster: find what the sweep has to start because no signal arrived for it or its signal was not handled.

Independent checks read one survey. Each returns what it found and why; the state machine starts what is due. The survey
is stored for the survey of the instances that follows. The time since which nodes are empty is stored from one sweep to
the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.survey_cluster.node_memory_record import record_node_memory
from functions.survey_cluster.spot_hours_record import record_spot_hours
from functions.survey_cluster.survey_document import build_survey_document
from functions.survey_cluster.survey_reports import SurveyReports
from joiner.adapters import documents, environment, metrics, sweep_documents
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.cluster_view import REPORTED, SURVEYED, ClusterView, ListedCluster
from joiner.adapters.disruption_items import DisruptionRecord
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.doorbell_webhooks import find_missing_webhooks
from joiner.adapters.drift_detections import DriftDetections
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.held_pod_lists import mark_held_pods
from joiner.adapters.ledger import Ledger
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.adapters.unwritten_claims import list_failed_writes, list_launching_claims
from joiner.cluster import Node, Pod
from joiner.disruption.drift_schedule import digest_pools, is_detection_due
from joiner.disruption.last_pod_events import digest_nodes, find_pod_events, note_pod_events
from joiner.disruption.selected_labels import find_selected_labels
from joiner.disruption.survey_digest import (
    describe_nodes,
    digest_for_disruption,
    is_replaced_at_risk,
    is_survey_due,
)
from joiner.item_keys import ANSWERED, ASSIGNMENT, AWAITED, DISRUPTION, EMPTY, HELD, PROPOSED, RECOMMENDED, UNAVAILABLE
from joiner.lifecycle.buffer_planning import digest_buffers
from joiner.lifecycle.checks.check_registry import CHECKS, RETIREMENTS
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, find_obscured_nodes
from joiner.lifecycle.checks.empty_claims import count_waiting_claims, empty_claims
from joiner.lifecycle.checks.stale_marks import find_stale_marks
from joiner.lifecycle.copied_claims import find_copied_claims, read_as_claims_of_users
from joiner.lifecycle.due_retirements import choose_retirements
from joiner.lifecycle.emptiness import compute_request_end
from joiner.lifecycle.other_autoscalers import refusal_reason
from joiner.lifecycle.retirement import RetirementReason
from joiner.names import NODE_CLASS_RESOURCES, POOL_RESOURCES
from joiner.planning import Snapshot
from joiner.planning.inputs.buffer_schedules import apply_buffer_schedules
from joiner.planning.inputs.capacity_buffers import capacity_buffer_pods
from joiner.pools.absent_classes import with_deleted_classes
from joiner.pools.closed_pools import find_closed_pools
from joiner.pools.scheduled_pools import apply_schedules
from joiner.reporting.class_events import report_deleted_classes
from joiner.reporting.events import Event
from joiner.reporting.launch_conditions import report_rebuilt_without_node
from joiner.reporting.manifest_problem_events import report_problems
from joiner.reporting.shortened_reasons import shortened

logger = Logger()

Manifest = Mapping[str, Any]

ITS_KINDS: Final = frozenset(
    {ASSIGNMENT, AWAITED, UNAVAILABLE, HELD, EMPTY, ANSWERED, DISRUPTION, PROPOSED, RECOMMENDED}
)  # survey_instances reports the others that cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecords:
    """The records of the table, by kind."""

    ledger: Ledger
    emptiness: EmptyNodes
    retirements: Retirements
    disruptions: Disruptions
    answers: PlanningBackOffs
    drift_detections: DriftDetections
    recommendations: Recommendations


class ClusterSurveying:
    """One survey; its dependencies are arguments, which tests replace. `interval` is the time between sweeps in
    seconds.
    """

    def __init__(
        self,
        view: ClusterView,
        records: ClusterRecords,
        store: Store,
        guards: AutoscalerDetection,
        reports: SurveyReports,
        *,
        interval: int = 60,
        time_left: TimeLeft = UNBOUNDED,
    ) -> None:
        self._view = view
        self._records = records
        self._ledger = records.ledger
        self._store = store
        self._guards = guards
        self._reports = reports
        self._interval = interval
        self._time_left = time_left

    def answer(self, task: Task, now: datetime, *, paused: bool = False) -> dict[str, Any]:
        """Return a count for each check, ``retire`` (claim, reason, earliest time), ``survey`` (its key) and
        ``reasons``.

        Beside another autoscaler return only ``refused``: objects of foreign definitions cannot be listed.
        """
        others = self._guards.detect(now)
        for reason in self._guards.report(others, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=reason)
        if refused := refusal_reason(others):
            return {"refused": refused, "reasons": shortened(other.message for other in others)}
        before = self._records.disruptions.all()
        survey, snapshot = self._read(now)
        under_way = self._records.disruptions.all()  # those whose nodes were tainted while they were listed, too
        survey = _beside_disruptions(survey, before, under_way)
        reported = self._reports.report_cluster(survey, task)
        if paused:
            self._reports.report_pause(survey, task)
            reported += self._reports.report_waiting_disruptions(under_way, survey, task)
            self._postpone_recommendations(survey)
        self._reports.publish(_report_deleted_classes(survey), survey, task)
        self._reports.publish(report_rebuilt_without_node(survey.claims, now), survey, task)
        self._reports.publish(report_problems(snapshot, survey.lists), survey, task)
        survey = self._record_empty_nodes(survey, task)
        record_node_memory(survey, self._store)
        record_spot_hours(survey, self._store)
        findings = {check.name: check.find(survey) for check in CHECKS}
        due = self._due(survey, task)
        unreadable = self._unreadable()
        found = (reason for found in findings.values() for reason in found)
        return {
            "refused": "",
            **{name: len(found) for name, found in findings.items()},
            "unreadable": len(unreadable),
            "unwritten": survey.unwritten,
            "retire": [each.request.to_json() for each in due],
            "emptyLater": count_waiting_claims(
                survey, {each.claim.name for each in due if each.reason is RetirementReason.EMPTY}
            ),
            "disruption": self._disruption(survey, under_way),
            "drift": self._drift(survey, task),
            "survey": documents.put_survey(self._store, task, build_survey_document(survey, survey.lists["nodes"])),
            "reasons": shortened([*unreadable, *reported, *(each.message for each in due), *found]),
        }

    def _unreadable(self) -> list[str]:
        """Return the records that cannot be read; survey_instances reports those of other kinds."""
        records = self._records
        parts = (records.ledger, records.emptiness, records.answers, records.disruptions, records.recommendations)
        return [str(one) for part in parts for one in part.unreadable if one.kind in ITS_KINDS]

    def _read(self, now: datetime) -> tuple[ClusterSurvey, Snapshot]:
        """Return the survey, and the objects that it was made from."""
        lease = self._ledger.lease()
        planning = lease.is_held(int(now.timestamp()))
        launches = self._ledger.unrecorded_launches()
        awaited = self._ledger.awaited_claims(waves := self._ledger.waves())
        recorded = self._ledger.assignments()
        assignments = {claim: assignment.classes for claim, assignment in recorded.items()}
        known = {*assignments, *(claim for launch in launches for claim in launch.claims)}
        lists = apply_buffer_schedules(self._view.lists(), now)
        if find_copied_claims(lists, known):  # an execution may have written them since
            lists = read_as_claims_of_users(lists, known | set(self._ledger.assignments()))
        listed = Snapshot.from_lists({**lists, "capacitybuffers": ()})  # their virtual pods are on no node
        lists, snapshot = mark_held_pods(lists, listed, now)
        buffer_pods, problems = capacity_buffer_pods(lists)
        snapshot = replace(snapshot, problems=(*snapshot.problems, *problems))
        survey = ClusterSurvey(
            pods=snapshot.pods,
            nodes=snapshot.nodes,
            claims=snapshot.claims,
            pools=apply_schedules(snapshot.pools, now),
            classes=snapshot.classes,
            problems=snapshot.problems,
            launching=list_launching_claims(launches, snapshot.claims),
            watches={wave.name: (wave.seen_at, awaited[wave.name]) for wave in waves},
            assignments=assignments,
            failed_writes=list_failed_writes(launches, recorded.values()),
            obscured=find_obscured_nodes(lists["pods"], snapshot.pods),
            lease=lease.number if planning else lease.number + 1,  # no execution launches the written claims
            planning=planning,
            now=now,
            interval=self._interval,
            lists=lists,
            unavailable=tuple(mark.offering.id for mark in self._ledger.unavailable(int(now.timestamp()))),
            holds=tuple(hold for hold in self._ledger.pool_holds() if hold.holds(int(now.timestamp()))),
            answers=self._records.answers.all(),
            recommended=self._records.recommendations.since(),
            closed_pools=find_closed_pools(snapshot.pools, snapshot.classes, snapshot.problems),
            buffered=self._records.answers.buffer_claims() if buffer_pods else None,
        )
        return survey, snapshot

    def _disruption(self, survey: ClusterSurvey, under_way: Sequence[DisruptionRecord]) -> dict[str, Any]:
        """Return whether a proposal of nodes to disrupt is due, the digest of its input, the executions of the
        disruptions under way (empty text: cannot be read), and the number of claims to clear."""
        last, nodes, pods = self._records.disruptions.last_proposal(), survey.node_of(), survey.pods_of()
        pools, recommended = survey.pool_of(), survey.recommended
        events = self._note_pod_events(nodes, pods, survey.now)
        selected = find_selected_labels(survey.pods, survey.lists)
        digest = digest_for_disruption(
            survey.lists,
            survey.claims,
            nodes,
            pods,
            pools,
            events=events,
            recommended=recommended,
            selected=selected,
            parts_beside=(
                ",".join(sorted(survey.closed_pools)),
                digest_buffers(survey.lists),
                sweep_documents.get_free_addresses(self._store),
                describe_nodes(survey.unmanaged_nodes(), selected),
            ),
            now=survey.now,
        )
        at_risk = (claim for claim in survey.claims if claim.name in recommended and claim.pool_key in pools)
        urgent = any(is_replaced_at_risk(claim, pools[claim.pool_key]) for claim in at_risk)
        due = is_survey_due(
            digest,
            last.digest,
            last.at,
            last.idle,
            survey.at,
            repeated=last.repeated,
            urgent=urgent,
            limits_end=last.limits_end,
        )
        executions = sorted({record.execution for record in under_way})
        return {"due": due, "digest": digest, "executions": executions, "staleMarks": len(find_stale_marks(survey))}

    def _note_pod_events(
        self, nodes: Mapping[str, Node], pods: Mapping[str, Sequence[Pod]], now: datetime
    ) -> Mapping[str, datetime]:
        """Store the pods of each node if they changed; return the last pod event of each claim."""
        if not nodes:
            return {}
        before, digests = sweep_documents.get_pod_events(self._store), digest_nodes(nodes, pods)
        seen = note_pod_events(before, digests, int(now.timestamp()))
        if seen != before:
            sweep_documents.put_pod_events(self._store, seen)
        return find_pod_events(seen, digests, now)

    def _drift(self, survey: ClusterSurvey, task: Task) -> dict[str, Any]:
        """Return whether drift is to be detected, with the snapshot of pools and classes that this needs."""
        digest = digest_pools(survey.pools, survey.classes)
        due = is_detection_due(survey.claims, survey.classes, digest, self._records.drift_detections.last(), survey.at)
        lists = {plural: survey.lists.get(plural) or () for plural in (*POOL_RESOURCES, *NODE_CLASS_RESOURCES)}
        key = documents.put_snapshot(self._store, task, lists, assignments={}, assigned={}, in_flight=()) if due else ""
        return {"due": due, "digest": digest, "snapshot": key}

    def _postpone_recommendations(self, survey: ClusterSurvey) -> None:
        """Keep the recommendations for existing claims until the pause ends: nothing follows from them until then."""
        there = {claim.name for claim in survey.claims}
        answers, left = call_each_in_time(
            [claim for claim in self._records.recommendations.ending(survey.at) if claim in there],
            lambda claim: self._records.recommendations.postpone(claim, survey.at),
            CALL_FAILURES,
            self._time_left,
        )
        failures = [str(failure) for _, failure in answers if failure is not None]
        if left or failures:  # the next sweep postpones them
            logger.warning(
                "not all recommendations were kept", left=len(left), failed=len(failures), first=failures[:1]
            )

    def _record_empty_nodes(self, survey: ClusterSurvey, task: Task) -> ClusterSurvey:
        """Update the record of empty nodes; return the survey with that record."""
        before = self._records.emptiness.all()
        empty = {claim.name for claim in empty_claims(survey)}
        lasting = {name for name, one in before.items() if not one.expires}
        begun = [(name, True) for name in sorted(empty - lasting)]
        ended = [(name, False) for name in sorted(set(before) - empty)]
        answers, left = call_each_in_time(
            [*ended, *begun], lambda one: self._note(*one, survey.at), CALL_FAILURES, self._time_left
        )
        failures = [str(failure) for _, failure in answers if failure is not None]
        if left or failures:  # the next sweep records them
            logger.warning("not all empty nodes were noted", left=len(left), failed=len(failures), reasons=failures[:1])
        return replace(
            survey,
            empty_since={name: before[name].since for name in empty & set(before)},
            # A first try of this execution requested it, and its answer was lost
            requested_until={
                name: before[name].requested_until
                for name in empty & set(before)
                if before[name].requested_by != task.execution.name
            },
        )

    def _note(self, claim: str, empty: bool, at: int) -> None:
        if empty:
            self._records.emptiness.begin(claim, at)
        else:
            self._records.emptiness.end(claim)

    def _due(self, survey: ClusterSurvey, task: Task) -> list[DueRetirement]:
        """Return each claim once, with its first reason; claims that no execution retires come first."""
        found = [due for check in RETIREMENTS for due in check.find(survey)]
        owned = (
            {claim for claim, retirement in self._records.retirements.all().items() if retirement.owner}
            if found
            else set()
        )
        chosen = choose_retirements(found, owned)
        empty = [due for due in chosen if due.reason is RetirementReason.EMPTY]
        asked, left = call_each_in_time(
            empty, lambda due: self._ask(due, survey.at, task.execution.name), CALL_FAILURES, self._time_left
        )
        failed = [(due, failure) for due, failure in asked if failure is not None]
        if left or failed:  # without a record of the request it is left out; the next sweep requests it
            reasons = [str(failure) for _, failure in failed[:1]]
            logger.warning("not all empty nodes were asked for", left=len(left), failed=len(failed), reasons=reasons)
        postponed = {due.claim.name for due in left}.union(due.claim.name for due, _ in failed)
        return [due for due in chosen if due.claim.name not in postponed]

    def _ask(self, due: DueRetirement, at: int, by: str) -> None:
        self._records.emptiness.ask(due.claim.name, compute_request_end(due.not_before, at), by=by)


def _report_deleted_classes(survey: ClusterSurvey) -> list[Event]:
    """Return the events of classes that are being deleted, also of those that are not valid, and of their pools."""
    manifests = [each for plural in NODE_CLASS_RESOURCES for each in survey.lists.get(plural) or ()]
    return report_deleted_classes(with_deleted_classes(survey.classes, manifests), survey.claims, survey.pools)


def _claims_of(disruptions: Iterable[DisruptionRecord]) -> frozenset[str]:
    return frozenset(claim for record in disruptions for claim in record.claims)


def _beside_disruptions(
    survey: ClusterSurvey, before: Iterable[DisruptionRecord], under_way: Sequence[DisruptionRecord]
) -> ClusterSurvey:
    replacing = frozenset(name for one in under_way if not one.requests for name in one.replacements)
    return replace(survey, disrupting=_claims_of(before) | _claims_of(under_way), replacing=replacing)


def read_records() -> ClusterRecords:
    """Return the records of this installation's table."""
    return ClusterRecords(
        ledger=environment.ledger(),
        emptiness=environment.empty_nodes(),
        retirements=environment.retirements(),
        disruptions=environment.disruptions(),
        answers=environment.planning_back_offs(),
        drift_detections=environment.drift_detections(),
        recommendations=environment.recommendations(),
    )


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    kube, interval = environment.kube(task.cluster), int(environment.setting("SWEEP_SECONDS"))
    view, guards = ListedCluster(kube, (*SURVEYED, *REPORTED), consistent=False), AutoscalerDetection(kube)
    reports = SurveyReports(
        guards,
        environment.impairments(),
        ListedPodsRole(kube),
        partial(find_missing_webhooks, kube),
        interval=interval,
    )
    survey = ClusterSurveying(
        view,
        read_records(),
        environment.store(),
        guards,
        reports,
        interval=interval,
        time_left=environment.time_left(context),
    )
    answer = survey.answer(task, environment.now(), paused=bool(event.get("paused")))
    logger.info("surveyed the cluster", **answer)
    counts = {"UnreadableRecords": answer.get("unreadable", 0), "ClaimsNotWritten": answer.get("unwritten", 0)}
    metrics.publish(task.cluster.name, counts)
    return answer
