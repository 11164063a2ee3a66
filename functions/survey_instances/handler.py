"""The sweep's look at EC2, at the ledger and at the executions that hold something: what died, and what it left behind.

A scale-up that was stopped holds the lease until it expires, and its wave for ever. Here both are taken from executions that run no more;
the write is conditional on holder and number, so a lease that moved on meanwhile is left alone.
"""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.ec2 import Ec2
from joiner.adapters.executions import RUNNING, Executions
from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import Task

logger = Logger()


class Survey:
    """One look; its parts are arguments so that a test can hand in its own."""

    def __init__(self, ledger: Ledger, executions: Executions, ec2: Ec2) -> None:
        self._ledger = ledger
        self._executions = executions
        self._ec2 = ec2

    def answer(self, cluster: str) -> dict[str, Any]:
        """``{"instances", "deadWaves", "leaseBroken", "openLaunches", "reasons"}`` for *Decide what is due*."""
        broken = self._broken_lease()
        dead = self._dead_waves()
        left = self._ledger.unrecorded_launches()
        reasons = [
            *([f"{broken} held the lease and runs no more"] if broken else []),
            *(f"wave {name} is watched by nobody" for name in dead),
            *(f"launch {launch.id} is {'closed but not recorded' if launch.closed else 'open'}" for launch in left),
        ]
        return {
            "instances": len(self._ec2.instances_of_cluster(cluster)),
            "deadWaves": len(dead),
            "leaseBroken": bool(broken),
            "openLaunches": len(left),
            "reasons": reasons[:20],
        }

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


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry."""
    task = Task.parse(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    survey = Survey(environment.ledger(), Executions(environment.client("stepfunctions")), Ec2(environment.client("ec2")))
    answer = survey.answer(task.cluster.name)
    logger.info("surveyed the instances", **answer)
    return answer
