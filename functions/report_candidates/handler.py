"""Report candidates: report which nodes may be consolidated, and why others stay.

Claims get the condition `Consolidatable`; nodes and claims that stay get the events `Unconsolidatable` and
`DisruptionBlocked`, pools whose budgets allow no node the latter, and pods whose annotation against disruption has no
meaning `InvalidDoNotDisruptAnnotation`. It changes nothing else, and a write that fails is repeated after the next
proposal.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, sweep_documents
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import index_by_name, list_claims, write_conditions
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.kube_events import publish_events
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.disruption.blocked_pools import find_blocked_pools
from joiner.disruption.consolidatable import find_consolidatable, mark_consolidatable
from joiner.disruption.last_pod_events import digest_snapshot, find_pod_events
from joiner.reporting import disruption_events

logger = Logger()


class CandidateReport:
    """One report; its dependencies are arguments, which tests replace."""

    def __init__(self, kube: Kube, store: Store, time_left: TimeLeft = UNBOUNDED) -> None:
        self._kube = kube
        self._store = store
        self._time_left = time_left

    def answer(self, task: Task, proposal: str, snapshot: str, now: datetime) -> dict[str, Any]:
        """Return ``{"conditions", "events"}``: how many were written."""
        made = documents.get_proposal(self._store, proposal)
        world = documents.get_snapshot(self._store, snapshot)
        moved = find_pod_events(sweep_documents.get_pod_events(self._store), digest_snapshot(world), now)
        consolidatable = find_consolidatable(world, moved, now)
        claims = index_by_name(list_claims(self._kube).claims)
        changed = [
            after
            for claim in claims.values()
            if claim.key in consolidatable
            and not claim.deleting
            and (after := mark_consolidatable(claim, may=consolidatable[claim.key], at=now)) is not None
        ]
        answers, left = call_each_in_time(
            changed, lambda claim: write_conditions(self._kube, claim), KubeError, self._time_left
        )
        failed = [str(answer) for _, answer in answers if isinstance(answer, KubeError)]
        events = [
            event
            for kept in made.kept
            if kept.claim in claims
            for event in disruption_events.report_kept(kept, claims[kept.claim])
        ]
        events += disruption_events.report_meaningless_protections(made.problems, world.pods)
        blocked = find_blocked_pools(world, consolidatable, now)
        events += [disruption_events.report_blocked_pool(pool, reason) for pool, reason in blocked]
        for unwritten in (*failed, *publish_events(self._kube, events, at=now, instance=task.execution.name)):
            logger.warning("a condition or an event could not be written", reason=unwritten)
        return {"conditions": len(changed) - len(failed) - len(left), "events": len(events)}


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    report = CandidateReport(environment.kube(task.cluster), environment.store(), environment.time_left(context))
    answer = report.answer(task, str(event["proposal"]), str(event["snapshot"]), environment.now())
    logger.info("reported candidates", **answer)
    return answer
