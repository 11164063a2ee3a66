"""The sweep's look at EC2, at the ledger and at the executions that hold something: what died, what it left behind,
what was lost.

A scale-up that was stopped holds the lease until it expires, and its wave for ever; a retirement that was stopped holds
its claims. All are taken from executions that run no more; each write is conditional on the holder, so what moved on
meanwhile is left alone. Nobody can ask whether an Express execution runs: its lease is left to expire, and its claims
are taken when it has not looked at them for minutes, or must have ended.

What the sweep saw of the cluster is held against what EC2 shows. Nothing that is merely absent is acted upon at the
first look, and nothing at all if one of the reads fails: then this function fails, and the next sweep looks again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, Protocol

from aws_lambda_powertools import Logger

from functions.survey_instances.instance_names import name_instances
from joiner.adapters import documents, environment, metrics
from joiner.adapters.absences import Absences
from joiner.adapters.documents import KeptSurvey
from joiner.adapters.ec2_client import Ec2, Instance
from joiner.adapters.executions import RUNNING, SUCCEEDED, UNTOLD, Executions
from joiner.adapters.failed_launches import record_launch_failure
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, Retirement
from joiner.adapters.payload import Task, shortened
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.item_keys import RETIREMENT
from joiner.lifecycle.checks import INSTANCE_CHECKS, InstanceSurvey, Mismatch, SeenClaim, SeenInstance
from joiner.lifecycle.orphans import OrphanVerdict, judge_orphans
from joiner.lifecycle.retirement import RetirementReason
from joiner.lifecycle.retirement_back_off import back_off_seconds, may_back_off
from joiner.names import ACTING, DRAINING, STOPS_EVERYTHING

logger = Logger()

REASONS: Final = 20  # as in survey_cluster
RETIRED_AT_ONCE: Final = 100  # claims of one retirement; the rest at the next sweep
COLLECTED_AT_ONCE: Final = 250  # instances of one collection; the rest at the next sweep

NAMING: Final = timedelta(seconds=5)
"""How long one survey tags instances; a call that has no answer takes longer, and is the last one."""

Asked = Mapping[str, Any]
"""``{"claim", "reason", "instance", "notBefore"}``: a claim to retire, as it travels between states."""


@dataclass(frozen=True, slots=True)
class InstanceRecords:
    """The records of the table, by kind."""

    ledger: Ledger
    retirements: Retirements
    absences: Absences


class ExecutionStatus(Protocol):
    """What tells how an execution ended (`joiner.adapters.executions`)."""

    def status(self, execution: str) -> str:
        """`RUNNING`, how it ended, `GONE` or `UNTOLD`."""


class InstanceSurveying:
    """One look; its dependencies are arguments, which tests replace. Two looks that agree lie `apart` seconds apart."""

    def __init__(
        self,
        memory: InstanceRecords,
        executions: ExecutionStatus,
        ec2: Ec2,
        store: Store,
        *,
        clock: Callable[[], datetime],
        apart: int = 45,
        switch: Callable[[], str] = lambda: ACTING,
    ) -> None:
        self._switch = switch
        self._clock = clock
        self._ledger = memory.ledger
        self._retirements = memory.retirements
        self._absences = memory.absences
        self._executions = executions
        self._ec2 = ec2
        self._store = store
        self._apart = apart

    def answer(self, task: Task, key: str, asked: Sequence[Asked]) -> dict[str, Any]:
        """What was taken from the dead, ``retire``, ``garbage``, ``rebuild``, ``refused`` and ``reasons``, for *Decide
        what is due*.

        `key` is the survey of the cluster, and `asked` whom that wants to retire.
        """
        broken, dead = self._broken_lease(), self._dead_waves()
        seen = documents.get_survey(self._store, key)
        found = self._instances(task.cluster.name, seen)
        instances = {each.id: SeenInstance(each.id, each.state, each.launch) for each in found.values()}
        left = self._ledger.unrecorded_launches()
        opened = [launch for launch in left if not launch.unreadable]
        verdict = self._judge(seen, instances, left)
        retirements = self._retirements.all()
        freed = self._dead_owners(retirements)
        retirements = self._retirements.all() if freed else retirements
        begun = self._begun(seen.claims, retirements, freed, instances)
        switch = self._switch()
        leaving = [_leaving(each) for each in seen.claims] if switch == DRAINING else []
        wanted = self._whom_to_retire([*leaving, *begun, *asked, *map(_asked, verdict.retire)], retirements, freed)
        resting = self._resting(seen.claims, retirements)
        unreadable = [one for part in (self._ledger, self._retirements, self._absences) for one in part.unreadable]
        retire = [each for each in wanted if each["claim"] not in resting or each["reason"] == RetirementReason.LOST]
        if switch not in STOPS_EVERYTHING:  # last: names are for people, and a slow EC2 must not stop what was decided
            self._name(found.values(), seen)
        return {
            "instances": len(instances),
            "deadWaves": len(dead),
            "leaseBroken": bool(broken),
            "openLaunches": len(opened),
            "deadRetirements": len(freed),
            "retire": retire[:RETIRED_AT_ONCE],
            "garbage": [case.instance for case in verdict.collect][:COLLECTED_AT_ONCE],
            "rebuild": [
                {"instance": case.instance, "node": case.node, "claim": case.claim} for case in verdict.rebuild
            ],
            "refused": verdict.refused,
            "unreadable": len(unreadable),
            "reasons": shortened(
                [
                    *map(str, unreadable),
                    *([f"{broken} held the lease and runs no more"] if broken else []),
                    *(f"wave {name} is watched by nobody" for name in dead),
                    *(
                        f"launch {launch.id} is {'closed but not recorded' if launch.closed else 'open'}"
                        for launch in opened
                    ),
                    *(f"nobody sees to the retirement of {claim} any more" for claim in freed),
                    *(
                        [f"{verdict.refused} orphans at once are too many to be true: nothing was ended"]
                        if verdict.refused
                        else []
                    ),
                    *(case.said for case in (*verdict.retire, *verdict.collect, *verdict.rebuild)),
                ],
                REASONS,
            ),
        }

    def _instances(self, cluster: str, seen: KeptSurvey) -> dict[str, Instance]:
        """All of ours in whatever state, and those of claims and nodes that have lost their tags: they are there all
        the same.
        """
        found = {each.id: each for each in self._ec2.instances_of_cluster(cluster, ended=True)}
        untagged = {claim.instance for claim in seen.claims if claim.instance}.union(seen.ours).difference(found)
        found |= self._ec2.whatever_became_of(untagged)
        self._note_deaths(found, seen)
        return found

    def _name(self, instances: Iterable[Instance], seen: KeptSurvey) -> None:
        until = self._clock() + NAMING
        claims = {claim.instance: claim.name for claim in seen.claims if claim.instance}
        name_instances(self._ec2, instances, claims, in_time=lambda: self._clock() < until)

    def _note_deaths(self, found: Mapping[str, Instance], seen: KeptSurvey) -> None:
        """Instances that ended at their launch, of claims that are still there. Noted once a claim: its retirement
        follows.
        """
        there = ((found[claim.instance], claim.name) for claim in seen.claims if claim.instance in found)
        ended = [(instance, claim) for instance, claim in there if not instance.alive]
        told = self._retirements.all() if ended else {}
        for instance, claim in ended:
            if claim in told and told[claim].said:
                continue
            if death := record_launch_failure(self._ledger, self._retirements, instance, claim, self._clock()):
                logger.error(
                    "an instance ended at its launch",
                    nodeclaim=claim,
                    instance=death.instance,
                    code=death.code,
                    reason=death.said,
                )

    def _judge(
        self, seen: KeptSurvey, instances: Mapping[str, SeenInstance], left: Sequence[LaunchRecord]
    ) -> OrphanVerdict:
        """Two looks agree if the second one's cluster was read after the first one's EC2: an instance that was there by
        then had its claim, which is written before it is launched. So an absence counts from now on, and is judged as
        of when the cluster was `seen`.
        """
        known = {claim.instance for claim in seen.claims}
        strangers = sorted(each for each in {*instances, *seen.ours} if each not in known)
        pairings = {each.instance: each.claim for each in self._ledger.pairings(strangers).values()}
        unrecorded = frozenset(launch.id for launch in left)
        survey = InstanceSurvey(seen.claims, seen.nodes, instances, unrecorded, pairings, frozenset(seen.ours))
        cases = [case for check in INSTANCE_CHECKS for case in check.look(survey)]
        since = self._absences.since()
        self._absences.keep({case.absent for case in cases if case.absent}, since, ceil(self._clock().timestamp()))
        return judge_orphans(cases, absent_since=since, now=seen.at, apart=self._apart, instances=len(instances))

    def _whom_to_retire(
        self, asked: Sequence[Asked], retirements: Mapping[str, Retirement], freed: Sequence[str]
    ) -> list[Asked]:
        """Each claim once, for its most urgent reason. Whoever retires a claim is told if its instance is lost, and is
        left alone.
        """
        found: dict[str, Asked] = {}
        for each in asked:
            claim = str(each["claim"])
            if claim not in found or _urgency(each) >= _urgency(found[claim]):
                found[claim] = each
        owned = {claim: one for claim, one in retirements.items() if one.owner and claim not in freed}
        unreadable = self._retirements.unreadable_ids(RETIREMENT)  # another execution may be at them
        for claim, one in owned.items():
            if (
                claim in found
                and found[claim]["reason"] == RetirementReason.LOST
                and RetirementReason.LOST not in one.reasons
            ):
                self._retirements.add(claim, RetirementReason.LOST)
        return [each for claim, each in found.items() if claim not in owned and claim not in unreadable]

    def _begun(
        self,
        claims: Sequence[SeenClaim],
        retirements: Mapping[str, Retirement],
        freed: Sequence[str],
        instances: Mapping[str, SeenInstance],
    ) -> list[Asked]:
        """Claims whose retirement was begun or asked for, and that nobody sees to any more. A loss that was noted is
        none any more if EC2 shows the instance alive.
        """
        there = {claim.name: claim for claim in claims}
        found: list[Asked] = []
        for name, retirement in sorted(retirements.items()):
            if name not in there or (retirement.owner and name not in freed):
                continue
            instance = instances.get(there[name].instance)
            reasons = {RetirementReason(each) for each in retirement.reasons if each in set(RetirementReason)}
            reasons -= {RetirementReason.LOST} if instance is not None and not instance.gone else set()
            if reasons:
                reason = max(reasons, key=lambda each: each.urgency)
                found.append({"claim": name, "reason": str(reason), "instance": there[name].instance, "notBefore": 0})
        return found

    def _dead_owners(self, retirements: Mapping[str, Retirement]) -> list[str]:
        """Claims that were taken from executions that run no more, or that cannot be at them any more by their own
        word.
        """
        owned, now = [each for each in retirements.values() if each.owner], int(self._clock().timestamp())
        status = {owner: self._executions.status(owner) for owner in {each.owner for each in owned}}
        left = [each for each in owned if status[each.owner] not in (RUNNING, UNTOLD) or not each.attended(now)]
        rest = {each.claim: now + back_off_seconds(each.attempt) for each in left if status[each.owner] == SUCCEEDED}
        return [
            each.claim for each in left if self._retirements.disown(each.claim, each.owner, rest.get(each.claim, 0))
        ]

    def _resting(self, claims: Sequence[SeenClaim], retirements: Mapping[str, Retirement]) -> set[str]:
        """Claims whose last execution ended well, and that say what keeps their nodes."""
        now = int(self._clock().timestamp())
        blocked = ((claim, retirements[claim.name]) for claim in claims if claim.blocked and claim.name in retirements)
        return {
            claim.name
            for claim, known in blocked
            if may_back_off(known.look_at, (known.deadline, claim.drained_by), now)
        }

    def _broken_lease(self) -> str:
        lease = self._ledger.lease()
        status = self._executions.status(lease.holder) if lease.holder else RUNNING
        if status == RUNNING or (status == UNTOLD and lease.living(int(self._clock().timestamp()))):
            return ""
        return lease.holder if self._ledger.break_lease(lease.holder, lease.number) else ""

    def _dead_waves(self) -> list[str]:
        dead = [wave.name for wave in self._ledger.waves() if self._executions.status(wave.execution) != RUNNING]
        for name in dead:
            self._ledger.end_wave(name)
        return dead


def _urgency(asked: Asked) -> int:
    return RetirementReason(asked["reason"]).urgency


def _leaving(claim: SeenClaim) -> Asked:
    """A claim of a cluster that Joiner is uninstalled from: all its nodes are drained, whatever the budgets of their
    pools say.
    """
    return {
        "claim": claim.name,
        "reason": str(RetirementReason.UNINSTALLED),
        "instance": claim.instance,
        "notBefore": 0,
    }


def _asked(case: Mismatch) -> Asked:
    return {"claim": case.claim, "reason": case.reason, "instance": case.instance, "notBefore": 0}


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    survey = InstanceSurveying(
        InstanceRecords(environment.ledger(), environment.retirements(), environment.absences()),
        Executions(environment.client("stepfunctions")),
        Ec2(environment.client("ec2")),
        environment.store(),
        clock=environment.now,
        apart=int(environment.setting("LOOKS_APART_SECONDS")),
        switch=environment.pause().value,
    )
    answer = survey.answer(task, str(event["survey"]), list(event["retire"]))
    logger.info("surveyed the instances", **answer)
    counts = {"OrphansRefused": answer["refused"], "InstancesGarbage": len(answer["garbage"])}
    metrics.publish(task.cluster.name, {**counts, "UnreadableRecords": answer["unreadable"]})
    return answer
