"""The sweep's look at EC2, at the ledger and at the executions that hold something: what died, what it left behind, what was lost.

A scale-up that was stopped holds the lease until it expires, and its wave for ever; a retirement that was stopped holds its claims. All are
taken from executions that run no more; each write is conditional on the holder, so what moved on meanwhile is left alone.

What the sweep saw of the cluster is held against what EC2 shows. Nothing that is merely absent is acted upon at the first look, and nothing
at all if one of the reads fails: then this function fails, and the next sweep looks again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, metrics
from joiner.adapters.absences import Absences
from joiner.adapters.documents import KeptSurvey
from joiner.adapters.ec2 import Ec2
from joiner.adapters.executions import RUNNING, Executions
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, Retirement
from joiner.adapters.payload import Task
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.lifecycle.checks import INSTANCE_CHECKS, Case, InstanceSurvey, SeenClaim, SeenInstance
from joiner.lifecycle.orphans import Verdict, judge

logger = Logger()

REASONS: Final = 20  # as in survey_cluster
RETIRED_AT_ONCE: Final = 100  # claims of one retirement; the rest at the next sweep

Asked = Mapping[str, Any]
"""``{"claim", "reason", "instance", "notBefore"}``: a claim to retire, as it travels between states."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the table remembers, by part."""

    ledger: Ledger
    retirements: Retirements
    absences: Absences


class Survey:
    """One look; its parts are arguments so that a test can hand in its own. Two looks that agree lie `apart` seconds apart."""

    def __init__(
        self, memory: Memory, executions: Executions, ec2: Ec2, store: Store, *, clock: Callable[[], datetime], apart: int = 45
    ) -> None:
        self._clock = clock
        self._ledger = memory.ledger
        self._retirements = memory.retirements
        self._absences = memory.absences
        self._executions = executions
        self._ec2 = ec2
        self._store = store
        self._apart = apart

    def answer(self, task: Task, key: str, asked: Sequence[Asked]) -> dict[str, Any]:
        """What was taken from the dead, ``retire``, ``garbage``, ``rebuild``, ``refused`` and ``reasons``, for *Decide what is due*.

        `key` is the survey of the cluster, and `asked` whom that wants to retire.
        """
        broken, dead = self._broken_lease(), self._dead_waves()
        seen = documents.get_survey(self._store, key)
        instances = self._instances(task.cluster.name, seen.claims)
        left = self._ledger.unrecorded_launches()
        verdict = self._judge(seen, instances, left)
        retirements = self._retirements.all()
        freed = self._dead_owners(retirements)
        retire = self._whom_to_retire(asked, verdict, seen.claims, retirements, freed)
        return {
            "instances": len(instances),
            "deadWaves": len(dead),
            "leaseBroken": bool(broken),
            "openLaunches": len(left),
            "deadRetirements": len(freed),
            "retire": retire[:RETIRED_AT_ONCE],
            "garbage": [case.instance for case in verdict.collect],
            "rebuild": [{"instance": case.instance, "node": case.node, "claim": case.claim} for case in verdict.rebuild],
            "refused": verdict.refused,
            "reasons": [
                *([f"{broken} held the lease and runs no more"] if broken else []),
                *(f"wave {name} is watched by nobody" for name in dead),
                *(f"launch {launch.id} is {'closed but not recorded' if launch.closed else 'open'}" for launch in left),
                *(f"whoever retired {claim} runs no more" for claim in freed),
                *([f"{verdict.refused} orphans at once are too many to be true: nothing was ended"] if verdict.refused else []),
                *(case.said for case in (*verdict.retire, *verdict.collect, *verdict.rebuild)),
            ][:REASONS],
        }

    def _instances(self, cluster: str, claims: Sequence[SeenClaim]) -> dict[str, SeenInstance]:
        """All of ours in whatever state, and those of claims that have lost their tags: they are there all the same."""
        found = {each.id: each for each in self._ec2.instances_of_cluster(cluster, ended=True)}
        untagged = {claim.instance for claim in claims if claim.instance} - set(found)
        found |= self._ec2.whatever_became_of(untagged)
        return {each.id: SeenInstance(each.id, each.state, each.launch) for each in found.values()}

    def _judge(self, seen: KeptSurvey, instances: Mapping[str, SeenInstance], left: Sequence[LaunchRecord]) -> Verdict:
        """Two looks agree if the second one's cluster was read after the first one's EC2: an instance that was there by then had its claim,
        which is written before it is launched. So an absence counts from now on, and is judged as of when the cluster was `seen`."""
        known = {claim.instance for claim in seen.claims}
        strangers = [each for each in instances if each not in known]
        pairings = {each.instance: each.claim for each in self._ledger.pairings(strangers).values()} if strangers else {}
        survey = InstanceSurvey(seen.claims, seen.nodes, instances, frozenset(launch.id for launch in left), pairings)
        cases = [case for check in INSTANCE_CHECKS for case in check.look(survey)]
        since = self._absences.since()
        self._absences.keep({case.absent for case in cases if case.absent}, since, ceil(self._clock().timestamp()))
        return judge(cases, absent_since=since, now=seen.at, apart=self._apart, instances=len(instances))

    def _whom_to_retire(
        self,
        asked: Sequence[Asked],
        verdict: Verdict,
        claims: Sequence[SeenClaim],
        retirements: Mapping[str, Retirement],
        freed: Sequence[str],
    ) -> list[Asked]:
        """Each claim once: what EC2 says of its instance counts more than what the cluster says of its node."""
        found = {str(each["claim"]): each for each in (*self._begun(claims, retirements, freed), *asked)}
        found |= {case.claim: _asked(case) for case in verdict.retire}
        owned = {claim for claim, retirement in retirements.items() if retirement.owner} - set(freed)
        return [each for claim, each in found.items() if claim not in owned]

    def _begun(self, claims: Sequence[SeenClaim], retirements: Mapping[str, Retirement], freed: Sequence[str]) -> list[Asked]:
        """Claims whose retirement was begun or asked for, and that nobody sees to any more."""
        there = {claim.name: claim for claim in claims}
        return [
            {"claim": claim, "reason": retirement.reasons[0], "instance": there[claim].instance, "notBefore": 0}
            for claim, retirement in sorted(retirements.items())
            if claim in there and retirement.reasons and (claim in freed or not retirement.owner)
        ]

    def _dead_owners(self, retirements: Mapping[str, Retirement]) -> list[str]:
        """Claims that were taken from executions that run no more."""
        owners = {each.owner for each in retirements.values() if each.owner}
        dead = {owner for owner in owners if self._executions.status(owner) != RUNNING}
        return [each.claim for each in retirements.values() if each.owner in dead and self._retirements.disown(each.claim, each.owner)]

    def _broken_lease(self) -> str:
        lease = self._ledger.lease()
        if not lease.holder or self._executions.status(lease.holder) == RUNNING:
            return ""
        return lease.holder if self._ledger.break_lease(lease.holder, lease.number) else ""

    def _dead_waves(self) -> list[str]:
        dead = [wave.name for wave in self._ledger.waves() if self._executions.status(wave.execution) != RUNNING]
        for name in dead:
            self._ledger.end_wave(name)
        return dead


def _asked(case: Case) -> Asked:
    return {"claim": case.claim, "reason": case.reason, "instance": case.instance, "notBefore": 0}


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry."""
    task = Task.parse(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    survey = Survey(
        Memory(environment.ledger(), environment.retirements(), environment.absences()),
        Executions(environment.client("stepfunctions")),
        Ec2(environment.client("ec2")),
        environment.store(),
        clock=environment.now,
        apart=int(environment.setting("LOOKS_APART_SECONDS")),
    )
    answer = survey.answer(task, str(event["survey"]), list(event["retire"]))
    logger.info("surveyed the instances", **answer)
    metrics.publish(task.cluster.name, {"OrphansRefused": answer["refused"], "InstancesGarbage": len(answer["garbage"])})
    return answer
