"""Confirm termination: which of the instances that were told to go are gone.

Gone is what EC2 shows as terminated, or does not show any more although it was told to terminate it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.ec2 import Ec2, Instance
from joiner.adapters.payload import Task
from joiner.lifecycle.retirement import Retiring, Stage

logger = Logger()


class Confirmation:
    """One look at a wave's instances; its parts are arguments so that a test can hand in its own."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    def answer(self, entries: Sequence[Retiring]) -> dict[str, Any]:
        """``{"claims", "gone"}``: all claims at their stages."""
        going = [one for one in entries if one.stage is Stage.TERMINATING]
        shown = self._ec2.whatever_became_of(one.instance for one in going) if going else {}
        done = {one.claim: _judged(one, shown.get(one.instance)) for one in going}
        gone = [one.instance for one in done.values() if one.stage is Stage.TERMINATED]
        logger.info("confirmed termination", gone=gone, going=len(done) - len(gone))
        return {"claims": [done.get(one.claim, one).to_json() for one in entries], "gone": len(gone)}


def _judged(one: Retiring, instance: Instance | None) -> Retiring:
    """One that lives was told to go, and did not hear it, or was started again: it is told once more."""
    if instance is None or instance.state == "terminated":
        return one.at(Stage.TERMINATED)
    stage = Stage.DRAINED if instance.alive else Stage.TERMINATING
    return one.at(stage, f"instance {one.instance} is {instance.state}")


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry."""
    task = Task.parse(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    return Confirmation(Ec2(environment.client("ec2"))).answer([Retiring.from_json(each) for each in event["claims"]])
