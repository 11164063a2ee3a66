"""Terminate instances: those of drained claims, by id, and only if they have this cluster's tags.

A second request for the same instance changes nothing. The state of each instance is read from EC2 first: an instance
that is gone needs no termination and may have lost its tags. A loss counts only if EC2 confirms it now. An instance
that runs although it was reported lost is drained like any other.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import environment, metrics
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_instances import Instance
from joiner.adapters.pause import PauseSwitch
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.instance_termination import judge_before_termination
from joiner.lifecycle.retirement import RetirementReason, RetirementStage, RetiringClaim

logger = Logger()


class InstanceTermination:
    """One termination of a wave's instances; its dependencies are arguments, which tests replace."""

    def __init__(self, ec2: Ec2, retirements: Retirements, pause: PauseSwitch) -> None:
        self._ec2 = ec2
        self._retirements = retirements
        self._pause = pause

    def answer(self, owner: str, cluster: str, entries: Sequence[RetiringClaim], now: datetime) -> dict[str, Any]:
        """Return ``{"claims", "terminated"}``: all claims with their stages."""
        self._retirements.see(
            (one.claim for one in entries if one.stage is RetirementStage.DRAINED), owner, int(now.timestamp())
        )
        if self._pause.on():  # paused after this execution began; it checks again in its next round
            paused = [
                one.at(one.stage, "Joiner is paused") if one.stage is RetirementStage.DRAINED else one
                for one in entries
            ]
            return {"claims": [one.to_json() for one in paused], "terminated": 0}
        drained = {one.instance: one for one in entries if one.stage is RetirementStage.DRAINED and one.instance}
        shown = self._ec2.find_by_id(drained)
        done = {one.claim: one for one in self._end(cluster, drained, shown, now)}
        done |= {
            one.claim: one.at(RetirementStage.TERMINATED)
            for one in entries
            if one.stage is RetirementStage.DRAINED and not one.instance
        }
        for one in done.values():
            if one.stage is RetirementStage.DRAINING:
                self._retirements.drop(one.claim, owner, RetirementReason.LOST)
            logger.info(
                "instance", instance=one.instance, nodeclaim=one.claim, node=one.node, stage=str(one.stage), why=one.why
            )
        return {
            "claims": [done.get(one.claim, one).to_json() for one in entries],
            "terminated": sum(one.stage is RetirementStage.TERMINATING for one in done.values()),
        }

    def _end(
        self, cluster: str, drained: Mapping[str, RetiringClaim], shown: Mapping[str, Instance], now: datetime
    ) -> list[RetiringClaim]:
        judged = {name: judge_before_termination(one, shown.get(name), cluster, now) for name, one in drained.items()}
        alive = [name for name, judgement in judged.items() if judgement is None]
        return [judgement for judgement in judged.values() if judgement is not None] + self._terminate(alive, drained)

    def _terminate(self, alive: Sequence[str], drained: Mapping[str, RetiringClaim]) -> list[RetiringClaim]:
        """Terminate the instances. An instance that EC2 refuses does not stop the others; its claim gives the reason,
        and is retried.
        """
        done = self._ec2.terminate(alive)
        for instance, reason in done.refused.items():
            logger.warning(
                "an instance was not terminated",
                instance=instance,
                nodeclaim=drained[instance].claim,
                reason=str(reason),
            )
        terminating = [
            drained[one].at(RetirementStage.TERMINATING, f"instance {one} is shutting-down") for one in done.ended
        ]
        unknown = [drained[one].at(RetirementStage.DRAINED, f"EC2 knows no instance {one}") for one in done.absent]
        return [
            *terminating,
            *unknown,
            *(drained[one].at(RetirementStage.DRAINED, str(reason)) for one, reason in done.refused.items()),
        ]


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    termination = InstanceTermination(Ec2(environment.client("ec2")), environment.retirements(), environment.pause())
    entries = [RetiringClaim.from_json(each) for each in event["claims"]]
    answer = termination.answer(task.execution.arn, task.cluster.name, entries, environment.now())
    metrics.publish(task.cluster.name, {"InstancesTerminated": answer["terminated"]})
    return answer
