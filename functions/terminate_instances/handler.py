"""Terminate instances: those of drained claims, by id, and only if they carry this cluster's tags.

Asked twice is asked once. What EC2 does not show (any more, or yet) is asked for nevertheless, one by one: EC2 says whether it exists, and
its IAM policy holds this function to instances with our tags.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aws_lambda_powertools import Logger

from joiner.adapters import environment, metrics
from joiner.adapters.ec2 import Ec2, Ec2Error, Instance
from joiner.adapters.parallel import each
from joiner.adapters.payload import Task
from joiner.lifecycle.retirement import Retiring, Stage
from joiner.names import CLUSTER_NAME_TAG, cluster_tag

logger = Logger()


class Switch(Protocol):
    """What stops Joiner."""

    def on(self) -> bool:
        """Is Joiner paused at this moment?"""


class Termination:
    """One termination of a wave's instances; its parts are arguments so that a test can hand in its own."""

    def __init__(self, ec2: Ec2, pause: Switch) -> None:
        self._ec2 = ec2
        self._pause = pause

    def answer(self, cluster: str, entries: Sequence[Retiring]) -> dict[str, Any]:
        """``{"claims", "terminated"}``: all claims at their stages."""
        if self._pause.on():  # since this execution began; it goes round, and looks again
            paused = [one.at(one.stage, "Joiner is paused") if one.stage is Stage.DRAINED else one for one in entries]
            return {"claims": [one.to_json() for one in paused], "terminated": 0}
        drained = {one.instance: one for one in entries if one.stage is Stage.DRAINED}
        shown = self._ec2.whatever_became_of(drained) if drained else {}
        done = {one.claim: one for one in self._end(cluster, drained, shown)}
        for one in done.values():
            logger.info("instance", instance=one.instance, nodeclaim=one.claim, node=one.node, stage=str(one.stage), why=one.why)
        return {
            "claims": [done.get(one.claim, one).to_json() for one in entries],
            "terminated": sum(one.stage is Stage.TERMINATING for one in done.values()),
        }

    def _end(self, cluster: str, drained: Mapping[str, Retiring], shown: Mapping[str, Instance]) -> list[Retiring]:
        ours = [instance for instance in drained if instance in shown and _is_ours(shown[instance], cluster)]
        strangers = [instance for instance in drained if instance in shown and instance not in ours]
        unseen = [instance for instance in drained if instance not in shown]
        alive = [instance for instance in ours if shown[instance].alive]
        ended = [drained[one].at(Stage.TERMINATING, f"instance {one} is {shown[one].state}") for one in ours if not shown[one].alive]
        ended += [drained[one].at(Stage.DRAINED, f"instance {one} does not carry the tags of {cluster}") for one in strangers]
        return ended + self._terminate(alive, drained) + self._terminate_unseen(unseen, drained)

    def _terminate(self, alive: Sequence[str], drained: Mapping[str, Retiring]) -> list[Retiring]:
        """All in one call; where that is refused, each alone, so that one (protected from termination) does not keep the others."""
        if not alive:
            return []
        try:
            self._ec2.terminate(alive)
        except Ec2Error as reason:
            if len(alive) == 1:
                return [drained[alive[0]].at(Stage.DRAINED, str(reason))]
            return [found for one in alive for found in self._terminate([one], drained)]
        return [drained[one].at(Stage.TERMINATING, f"instance {one} is shutting-down") for one in alive]

    def _terminate_unseen(self, unseen: Sequence[str], drained: Mapping[str, Retiring]) -> list[Retiring]:
        found = []
        for instance, answer in each(unseen, lambda one: self._ec2.terminate([one]), Ec2Error):
            if isinstance(answer, Ec2Error):
                found.append(drained[instance].at(Stage.DRAINED, str(answer)))
            else:
                stage = Stage.TERMINATING if answer else Stage.TERMINATED
                found.append(drained[instance].at(stage, f"EC2 {'shows' if answer else 'knows'} no instance {instance}"))
        return found


def _is_ours(instance: Instance, cluster: str) -> bool:
    return instance.tags.get(cluster_tag(cluster)) == "owned" and instance.tags.get(CLUSTER_NAME_TAG) == cluster


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry."""
    task = Task.parse(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    termination = Termination(Ec2(environment.client("ec2")), environment.pause())
    answer = termination.answer(task.cluster.name, [Retiring.from_json(each) for each in event["claims"]])
    metrics.publish(task.cluster.name, {"InstancesTerminated": answer["terminated"]})
    return answer
