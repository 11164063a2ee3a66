"""Confirm termination: which of the instances that were terminated are gone.

An instance is gone if EC2 shows it as terminated or does not know its id any more.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.instance_termination import judge_after_termination
from joiner.lifecycle.retirement import RetirementStage, RetiringClaim

logger = Logger()


class TerminationConfirmation:
    """One check of a wave's instances; its dependencies are arguments, which tests replace."""

    def __init__(self, ec2: Ec2, retirements: Retirements) -> None:
        self._ec2 = ec2
        self._retirements = retirements

    def answer(self, owner: str, entries: Sequence[RetiringClaim], now: datetime) -> dict[str, Any]:
        """Return ``{"claims", "gone"}``: all claims with their stages."""
        terminating = [one for one in entries if one.stage is RetirementStage.TERMINATING]
        self._retirements.see((one.claim for one in terminating), owner, int(now.timestamp()))
        shown = self._ec2.find_by_id(one.instance for one in terminating)
        done = {one.claim: judge_after_termination(one, shown.get(one.instance), now) for one in terminating}
        gone = [one.instance for one in done.values() if one.stage is RetirementStage.TERMINATED]
        logger.info("confirmed termination", gone=gone, terminating=len(done) - len(gone))
        return {"claims": [done.get(one.claim, one).to_json() for one in entries], "gone": len(gone)}


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    confirmation = TerminationConfirmation(Ec2(environment.client("ec2")), environment.retirements())
    entries = [RetiringClaim.from_json(each) for each in event["claims"]]
    return confirmation.answer(task.execution.arn, entries, environment.now())
