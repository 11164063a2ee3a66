"""The sweep's look at the cluster: is there anything that no signal told, or that its signal did not get done?

A table of independent checks over one survey. Each says how many cases it found and why; the state machine starts what is due.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.cluster_view import ClusterView, ListedCluster
from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import Task
from joiner.lifecycle.checks import CHECKS, ClusterSurvey
from joiner.planning import Snapshot

logger = Logger()

REASONS: Final = 20  # the answer is read in the console, and stays far below the payload limit


class Survey:
    """One look; its parts are arguments so that a test can hand in its own."""

    def __init__(self, view: ClusterView, ledger: Ledger) -> None:
        self._view = view
        self._ledger = ledger

    def answer(self, now: datetime) -> dict[str, Any]:
        """One count a check, and ``reasons``."""
        at = int(now.timestamp())
        lease = self._ledger.lease()
        launches = self._ledger.unrecorded_launches()
        waves = self._ledger.waves()
        assignments = {claim: assignment.classes for claim, assignment in self._ledger.assignments().items()}
        world = Snapshot.from_lists(self._view.lists())
        survey = ClusterSurvey(
            pods=world.pods,
            nodes=world.nodes,
            claims=world.claims,
            launching=frozenset(claim for launch in launches for claim in launch.claims),
            watches={wave.name: (wave.seen_at, wave.claims) for wave in waves},
            assignments=assignments,
            lease=lease.number if lease.living(at) else lease.number + 1,  # without a living holder, nobody launches what is written
            now=now,
        )
        findings = {check.name: check.look(survey) for check in CHECKS}
        counts = {name: len(found) for name, found in findings.items()}
        reasons = [reason for found in findings.values() for reason in found]
        return {**counts, "reasons": reasons[:REASONS]}


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry."""
    task = Task.parse(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    survey = Survey(ListedCluster(environment.kube(task.cluster)), environment.ledger())
    answer = survey.answer(environment.now())
    logger.info("surveyed the cluster", **answer)
    return answer
