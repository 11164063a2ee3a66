"""Collect garbage: terminate the instances that two surveys found without a claim and without a node.

Everything that EC2 and the ledger can answer is checked once more before the termination: whether Joiner is paused,
whether the instance has this cluster's tags, whether its launch is closed and recorded, and whether the number of
instances is within the limit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import environment, metrics
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import call_each
from joiner.adapters.pause import PauseSwitch
from joiner.lifecycle.orphans import removal_limit
from joiner.reporting.shortened_reasons import shortened

logger = Logger()


class GarbageCollection:
    """One collection; its dependencies are arguments, which tests replace."""

    def __init__(self, ledger: Ledger, ec2: Ec2, pause: PauseSwitch) -> None:
        self._ledger = ledger
        self._ec2 = ec2
        self._pause = pause

    def answer(self, cluster: str, asked: Sequence[str]) -> dict[str, Any]:
        """Return ``{"terminated": [instances], "refused": count, "reasons": [texts], "left": count}``."""
        if self._pause.on():
            logger.warning("Joiner is paused: nothing is terminated")
            return {"terminated": [], "refused": 0, "reasons": [], "left": len(asked)}
        ours = {one.id: one for one in self._ec2.instances_of_cluster(cluster)}
        unrecorded = {launch.id for launch in self._ledger.unrecorded_launches()}
        garbage = sorted(instance for instance in set(asked) & set(ours) if ours[instance].launch not in unrecorded)
        if len(garbage) > removal_limit(len(ours)):
            raise RuntimeError(
                f"{len(garbage)} of {len(ours)} instances are too many to be garbage: nothing was terminated"
            )
        done = self._ec2.terminate(garbage)
        for (
            instance,
            reason,
        ) in done.refused.items():  # the next sweep tries again; EC2 would refuse an immediate retry, too
            logger.warning(
                "an instance without a claim and without a node was not terminated",
                instance=instance,
                reason=str(reason),
            )
        for instance in done.ended:
            logger.warning(
                "an instance without a claim and without a node was terminated",
                instance=instance,
                launch=ours[instance].launch,
            )
        self._forget([*done.ended, *done.absent])
        return {
            "terminated": list(done.ended),
            "refused": len(done.refused),
            "reasons": shortened(f"instance {instance}: {reason}" for instance, reason in done.refused.items()),
            "left": len(asked) - len(done.ended) - len(done.absent),
        }

    def _forget(self, instances: Sequence[str]) -> None:
        """Delete the `INSTANCE` items of terminated instances.

        An item that cannot be deleted does not stop the others. It does no harm: EC2 does not use the id of a
        terminated instance again.
        """
        for instance, error in call_each(instances, self._ledger.forget_instance, Exception):
            if isinstance(error, Exception):
                logger.warning(
                    "the ledger's item of a terminated instance was not deleted", instance=instance, reason=str(error)
                )


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    collection = GarbageCollection(environment.ledger(), Ec2(environment.client("ec2")), environment.pause())
    answer = collection.answer(task.cluster.name, [str(instance) for instance in event["instances"]])
    metrics.publish(
        task.cluster.name, {"GarbageTerminated": len(answer["terminated"]), "GarbageRefused": answer["refused"]}
    )
    return answer
