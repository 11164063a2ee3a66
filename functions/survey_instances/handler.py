"""Survey instances: compare EC2, the ledger and the executions with the survey of the cluster.

A scale-up that was stopped keeps the lease until it expires, and keeps its wave forever. A retirement that was stopped
keeps its claims. This function takes all of them from executions that no longer run. Each write is conditional on the
holder, so a record that changed meanwhile stays as it is. The state of an Express execution cannot be read: its lease
is left to expire. Its claims are taken when it has not updated them for minutes, or when it must have ended.

An absence that one survey finds causes no action until a second survey confirms it. If a read fails, this function
fails without any action, and the next sweep tries again.

Instances of claims that this deployment did not launch are recorded in the ledger, so that their notices are handled.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, Protocol

from aws_lambda_powertools import Logger

from functions.survey_instances.adopted_instances import InstanceAdoption
from functions.survey_instances.instance_names import name_instances
from functions.survey_instances.optional_calls import STORAGE_ERRORS, OptionalCalls, storage_trouble
from functions.survey_instances.status_checks import InstanceHealth
from functions.survey_instances.unreadable_launches import find_absent_launches, forget_launches
from functions.survey_instances.unregistered_instances import ConsoleKeeping
from joiner.adapters import documents, environment, metrics
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.documents import KeptSurvey
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_instances import Instance
from joiner.adapters.executions import RUNNING, STATUS_UNKNOWN, SUCCEEDED, Executions
from joiner.adapters.immediate_termination_records import record_launch_failure
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, Retirement
from joiner.adapters.orphan_records import Absences, Impairments
from joiner.adapters.payload import Task
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.disruption.drift import ObservedInstance
from joiner.item_keys import RETIREMENT
from joiner.lifecycle.checks.check_registry import INSTANCE_CHECKS
from joiner.lifecycle.checks.instance_survey import InstanceSurvey, SeenClaim, SeenInstance
from joiner.lifecycle.orphans import OrphanVerdict, judge_orphans
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason, RetirementRequest
from joiner.lifecycle.unowned_retirements import (
    choose_requests,
    find_abandoned_retirements,
    find_claims_backing_off,
    find_unknown_losses,
    list_begun_retirements,
)
from joiner.names import ACTING, DRAINING, STOPS_EVERYTHING
from joiner.reporting.instance_survey_reasons import describe_instance_survey
from joiner.reporting.shortened_reasons import shortened

logger = Logger()

COLLECTED_AT_ONCE: Final = 250  # instances of one collection; the next sweep collects the others

NAMING: Final = timedelta(seconds=5)
"""Time for tagging instances in one survey, and for reading console outputs; a call that is pending at the end is the
last one."""


RECORDED: Final[set[str]] = set()
"""Instances of claims whose records are known to exist: kept for the life of the process, so that a sweep of a cluster
at rest reads none of them."""


@dataclass(frozen=True, slots=True)
class InstanceRecords:
    """The records of the table, by kind."""

    ledger: Ledger
    retirements: Retirements
    absences: Absences
    impairments: Impairments
    disruptions: Disruptions


@dataclass(frozen=True, slots=True)
class ClusterFindings:
    """What the survey of the cluster has found: the key of the survey, the claims that it wants to retire, whether
    drift is to be detected, and the executions with disruptions under way (by ARN)."""

    survey: str
    retire: Sequence[RetirementRequest]
    drift: bool = False
    disruptions: Sequence[str] = ()

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> "ClusterFindings":
        """Read the input of the function."""
        return cls(
            str(event["survey"]),
            [RetirementRequest.from_json(each) for each in event["retire"]],
            drift=bool(event["drift"]),
            disruptions=[str(arn) for arn in event.get("disruptions", ())],
        )


class ExecutionStatus(Protocol):
    """Reads how an execution ended (`joiner.adapters.executions`)."""

    def status(self, execution: str) -> str:
        """Return `RUNNING`, the final status, `GONE` or `STATUS_UNKNOWN`."""


class InstanceSurveying:
    """One survey; its dependencies are arguments, which tests replace. Two surveys that confirm each other are `apart`
    seconds apart.
    """

    def __init__(
        self,
        memory: InstanceRecords,
        executions: ExecutionStatus,
        ec2: Ec2,
        store: Store,
        optional: OptionalCalls,
        *,
        clock: Callable[[], datetime],
        apart: int = 45,
        switch: Callable[[], str] = lambda: ACTING,
        recorded: set[str] | None = None,
    ) -> None:
        self._adoption = InstanceAdoption(memory.ledger, set() if recorded is None else recorded)
        self._switch = switch
        self._clock = clock
        self._ledger = memory.ledger
        self._retirements = memory.retirements
        self._absences = memory.absences
        self._impairments = memory.impairments
        self._health = InstanceHealth(optional.ec2, memory.impairments, memory.retirements)
        self._disruptions = memory.disruptions
        self._executions = executions
        self._ec2 = ec2
        self._store = store
        self._optional = optional
        self._apart = apart

    def answer(self, task: Task, asked: ClusterFindings) -> dict[str, Any]:
        """Return what was taken from stopped executions, ``retire``, ``garbage``, ``rebuild``, ``refused`` and
        ``reasons``. ``leftDisruptions`` are executions with disruptions under way that no longer run.

        The state *Decide what is due* reads them. If drift is to be detected, ``described`` is the key of the stored
        instances, else it is empty.
        """
        broken, dead = self._broken_lease(), self._end_waves_without_execution()
        seen = documents.get_survey(self._store, asked.survey)
        found = self._instances(task.cluster.name, seen)
        instances = {each.id: SeenInstance(each.id, each.state, each.launch) for each in found.values()}
        unrecorded = self._ledger.unrecorded_launches()
        opened = _without_waiting(unrecorded, seen.claims, self._clock())
        switch = self._switch()
        acting = switch not in STOPS_EVERYTHING
        verdict, forgotten = self._judge(seen, instances, unrecorded, acting=acting)
        troubles = self._health.record(seen.claims, self._clock(), acting=acting)
        retire, freed = self._retire(
            seen.claims, instances, [*asked.retire, *_of_orphans(verdict)], leaving=switch == DRAINING
        )
        unreadable = self._unreadable()
        if acting:  # last: names are for people, and a slow EC2 must not stop the decisions
            self._name(found.values(), seen)
            troubles = [*troubles, *self._keep_consoles(retire[:RETIRED_AT_ONCE], seen)]
        described, unstored = self._describe(task, found.values()) if asked.drift else ("", [])
        launches = {launch.id: launch.closed for launch in opened}
        findings = describe_instance_survey(verdict, lease_holder=broken, waves=dead, launches=launches, freed=freed)
        return {
            "instances": len(instances),
            "described": described,
            "endedWaves": len(dead),
            "leaseBroken": bool(broken),
            "disrupting": self._is_disrupting(),
            "leftDisruptions": self._find_ended(asked.disruptions),
            "openLaunches": len(opened),
            "endedRetirements": len(freed),
            "retire": [each.to_json() for each in retire[:RETIRED_AT_ONCE]],
            "garbage": [case.instance for case in verdict.collect][:COLLECTED_AT_ONCE],
            "rebuild": [
                {"instance": case.instance, "node": case.node, "claim": case.claim} for case in verdict.rebuild
            ],
            "refused": verdict.refused,
            "unreadable": len(unreadable),
            "reasons": shortened([*unreadable, *forgotten, *troubles, *unstored, *findings]),
        }

    def _retire(
        self,
        claims: Sequence[SeenClaim],
        instances: Mapping[str, SeenInstance],
        requests: Sequence[RetirementRequest],
        *,
        leaving: bool,
    ) -> tuple[list[RetirementRequest], list[str]]:
        """Return the claims to retire, the most urgent first, and those whose retirement lost an inactive owner.

        An execution that already retires a claim gets a record if the instance is lost, and keeps the claim. `leaving`:
        all nodes leave while Joiner is uninstalled. Nothing is left to do for released claims.
        """
        claims = [each for each in claims if not each.released]
        uninstalled = [RetirementRequest(each.name, RetirementReason.UNINSTALLED, each.instance) for each in claims]
        retirements = self._retirements.all()
        freed = self._disown_abandoned(retirements)
        retirements = self._retirements.all() if freed else retirements
        begun = list_begun_retirements(claims, retirements, freed, instances)
        wanted = [*(uninstalled if leaving else []), *begun, *requests]
        for claim in find_unknown_losses(wanted, retirements, freed):
            self._retirements.add(claim, RetirementReason.LOST)
        backing_off = find_claims_backing_off(claims, retirements, int(self._clock().timestamp()))
        unreadable = self._retirements.unreadable_ids(RETIREMENT)
        chosen = choose_requests(wanted, retirements, freed, unreadable=unreadable, backing_off=backing_off)
        return sorted(chosen, key=lambda each: -each.reason.urgency), freed  # a sweep retires the first ones

    def _disown_abandoned(self, retirements: Mapping[str, Retirement]) -> list[str]:
        """Remove inactive owners of retirements; return the claims."""
        owners = {each.owner for each in retirements.values() if each.owner}
        status = {owner: self._executions.status(owner) for owner in owners}
        found = find_abandoned_retirements(
            retirements.values(),
            running={owner for owner, state in status.items() if state in (RUNNING, STATUS_UNKNOWN)},
            succeeded={owner for owner, state in status.items() if state == SUCCEEDED},
            now=int(self._clock().timestamp()),
        )
        return [each.claim for each in found if self._retirements.disown(each.claim, each.owner, each.back_off_until)]

    def _unreadable(self) -> list[str]:
        """Return the records that cannot be read."""
        parts = (self._ledger, self._retirements, self._absences, self._impairments)
        return [str(one) for part in parts for one in part.unreadable]

    def _describe(self, task: Task, found: Iterable[Instance]) -> tuple[str, list[str]]:
        """Return the key of the stored instances, empty if they could not be stored, and the reason."""
        living = {
            each.id: ObservedInstance(
                each.image, each.subnet, frozenset(each.security_groups), each.reservation, each.placement_group
            )
            for each in found
            if each.works
        }
        try:
            return documents.put_instances(self._optional.store, task, living), []
        except STORAGE_ERRORS as error:
            return "", [storage_trouble("the instances for the detection of drift", error)]

    def _instances(self, cluster: str, seen: KeptSurvey) -> dict[str, Instance]:
        """Return all instances of this cluster in any state, and instances of claims and nodes that lost their tags."""
        found = {each.id: each for each in self._ec2.instances_of_cluster(cluster, ended=True)}
        untagged = {claim.instance for claim in seen.claims if claim.instance}.union(seen.ours).difference(found)
        found |= self._ec2.in_any_state(untagged)
        self._note_deaths(found, seen)
        return found

    def _name(self, instances: Iterable[Instance], seen: KeptSurvey) -> None:
        claims = {claim.instance: claim.name for claim in seen.claims if claim.instance}
        name_instances(self._optional.ec2, instances, claims, in_time=self._time_for_one_kind())

    def _keep_consoles(self, retire: Sequence[RetirementRequest], seen: KeptSurvey) -> list[str]:
        keeping = ConsoleKeeping(self._optional, self._retirements, self._time_for_one_kind())
        return keeping.keep(retire, seen.claims, self._clock())

    def _time_for_one_kind(self) -> Callable[[], bool]:
        until = self._clock() + NAMING
        return lambda: self._clock() < until and not self._optional.time_left.over

    def _note_deaths(self, found: Mapping[str, Instance], seen: KeptSurvey) -> None:
        """Record why instances ended whose claims exist: once for each claim, because its retirement follows."""
        there = ((found[claim.instance], claim) for claim in seen.claims if claim.instance in found)
        ended = [(instance, claim) for instance, claim in there if not instance.works]
        known = self._retirements.all() if ended else {}
        for instance, seen_claim in ended:
            claim = seen_claim.name
            retirement = known.get(claim, Retirement(claim))
            if not (seen_claim.deleting or retirement.owner or retirement.state_reason) and instance.state_reason:
                self._retirements.note_state_reason(claim, instance.state_reason, int(self._clock().timestamp()))
            if instance.alive or retirement.launch_failure:
                continue
            if death := record_launch_failure(self._ledger, self._retirements, instance, claim, self._clock()):
                logger.error(
                    "an instance ended at its launch",
                    nodeclaim=claim,
                    instance=death.instance,
                    code=death.code,
                    reason=death.explanation,
                )

    def _judge(
        self, seen: KeptSurvey, instances: Mapping[str, SeenInstance], left: Sequence[LaunchRecord], *, acting: bool
    ) -> tuple[OrphanVerdict, list[str]]:
        """Return which orphans two surveys confirm, and which launches were forgotten.

        The second survey must read the cluster after the first one read EC2: the claim of an instance is written before
        the instance is launched. So an absence counts from now on, and is compared with the time when the cluster was
        `seen`.
        """
        known = {claim.instance for claim in seen.claims}
        strangers = [each for each in {*instances, *seen.ours} if each not in known]
        working = {each.id for each in instances.values() if not each.gone}
        pairings = self._adoption.pairings(seen.claims, strangers, working)
        unrecorded = frozenset(launch.id for launch in left)
        survey = InstanceSurvey(seen.claims, seen.nodes, instances, unrecorded, pairings, frozenset(seen.ours))
        cases = [case for check in INSTANCE_CHECKS for case in check.find(survey)]
        since, absent = self._absences.since(), find_absent_launches(left, instances)
        missing = {case.absent for case in cases if case.absent}.union(absent)
        self._absences.keep(missing, since, ceil(self._clock().timestamp()))
        forgotten = forget_launches(self._ledger, absent if acting else {}, since, seen.at)
        verdict = judge_orphans(cases, absent_since=since, now=seen.at, apart=self._apart, instances=len(instances))
        return verdict, forgotten

    def _broken_lease(self) -> str:
        lease = self._ledger.lease()
        status = self._executions.status(lease.holder) if lease.holder else RUNNING
        if status == RUNNING or (status == STATUS_UNKNOWN and lease.is_held(int(self._clock().timestamp()))):
            return ""
        return lease.holder if self._ledger.break_lease(lease.holder, lease.number) else ""

    def _is_disrupting(self) -> bool:
        """Return whether an execution disrupts nodes. The turn of one that no longer runs is taken."""
        turn = self._disruptions.turn()
        if not turn.holder:
            return False
        return self._executions.status(turn.holder) == RUNNING or not self._disruptions.break_turn(turn.holder)

    def _find_ended(self, disruptions: Iterable[str]) -> list[str]:
        """Return the executions that have disruptions under way and no longer run: what they left is settled. A record
        that cannot be read names none, and is left over in any case."""
        return [each for each in disruptions if not each or self._executions.status(each) != RUNNING]

    def _end_waves_without_execution(self) -> list[str]:
        dead = [wave.name for wave in self._ledger.waves() if self._executions.status(wave.execution) != RUNNING]
        for name in dead:
            self._ledger.end_wave(name)
        return dead


def _of_orphans(verdict: OrphanVerdict) -> list[RetirementRequest]:
    return [RetirementRequest(case.claim, RetirementReason(case.reason), case.instance) for case in verdict.retire]


def _without_waiting(
    launches: Iterable[LaunchRecord], claims: Iterable[SeenClaim], now: datetime
) -> list[LaunchRecord]:
    """Return the launches that a scale-up continues now."""
    there = {claim.name for claim in claims}
    return [each for each in launches if not (each.unreadable or each.waits(int(now.timestamp()), there))]


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    survey = InstanceSurveying(
        InstanceRecords(
            environment.ledger(),
            environment.retirements(),
            environment.absences(),
            environment.impairments(),
            environment.disruptions(),
        ),
        Executions(environment.client("stepfunctions")),
        Ec2(environment.client("ec2")),
        environment.store(),
        OptionalCalls(
            Ec2(environment.single_try_client("ec2")),
            environment.store(single_try=True),
            environment.time_left(context),
        ),
        clock=environment.now,
        apart=int(environment.setting("CONFIRM_AFTER_SECONDS")),
        switch=environment.pause().value,
        recorded=RECORDED,
    )
    answer = survey.answer(task, ClusterFindings.from_event(event))
    logger.info("surveyed the instances", **answer)
    counts = {"OrphansRefused": answer["refused"], "InstancesGarbage": len(answer["garbage"])}
    metrics.publish(task.cluster.name, {**counts, "UnreadableRecords": answer["unreadable"]})
    return answer
