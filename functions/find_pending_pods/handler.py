"""Find pending pods: write the snapshot that all decisions of this round are made from.

The number of rings is read before anything is listed. A later ring is not covered by this snapshot, and the release of
the lease detects it. The ledger is read before claims are listed, so that every claim of the ledger must be in the
list.

Two reasons to do nothing are found here: another autoscaler creates nodes in this cluster, or an event already reported
to each pod why no node is launched for it.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, metrics
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ClusterView, ListedCluster
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import yet_unstored
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_offs import PlanningBackOffs
from joiner.adapters.store import Store
from joiner.cluster import Pod
from joiner.lifecycle.declared_status import count_unreported
from joiner.lifecycle.failed_claims import find_late_claims
from joiner.lifecycle.initialization import closed_too_long
from joiner.lifecycle.other_autoscalers import OtherAutoscaler, refusal_reason
from joiner.lifecycle.planning_back_off import describe_pending_classes, find_classes_to_plan
from joiner.lifecycle.progress import assess_progress, list_uncovered_pods, open_assignments
from joiner.lifecycle.watching import WATCHED_FOR
from joiner.planning import Snapshot
from joiner.pools.retiring_nodes import find_retiring_nodes

logger = Logger()

NOTHING: Mapping[str, Any] = {"snapshot": "", "pods": 0, "asking": 0, "unfinished": 0, "unwatched": 0}


class PendingPodSearch:
    """One search for pending pods; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        view: ClusterView,
        ledger: Ledger,
        answers: PlanningBackOffs,
        store: Store,
        guards: AutoscalerDetection,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._answers = answers
        self._store = store
        self._guards = guards
        self._sleep = sleep

    def answer(self, task: Task, now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"rings", "refused", "snapshot", "pods", "asking", "unfinished", "unwatched"}``.

        No snapshot is stored if there is nothing to do. Raises LeaseLost if another execution holds the lease now.
        """
        lease = self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        rings = lease.rings
        if left := yet_unstored(lease.stored_at, now):
            self._sleep(left)
        others = self._guards.look(now)
        self._tell(others, task, now)
        if refused := refusal_reason(others):
            return {"rings": rings, "refused": refused, **NOTHING}
        launches = self._ledger.unrecorded_launches()
        launching = {claim for launch in launches for claim in launch.claims}
        assignments = {claim: assignment.classes for claim, assignment in self._ledger.assignments().items()}
        seen_since = int((now - WATCHED_FOR).timestamp())
        watched = {claim for wave in self._ledger.waves() if wave.seen_at >= seen_since for claim in wave.claims}
        lists = self._view.lists(expected_claims=launching | set(assignments))

        world = Snapshot.from_lists(lists)
        # Only the lease's holder launches, and this execution is the holder: a claim without a launch in progress is
        # never launched, its own claims included
        late = find_late_claims(world.claims, world.nodes, now)
        state = assess_progress(
            world.claims, launching=launching, watched=watched, lease=task.lease_number + 1, late=late
        )
        kept = open_assignments(state.on_their_way, assignments, world.nodes, world.pods)
        closed = sum(closed_too_long(node, now) for node in world.nodes)
        entering = [claim.name for claim in state.entering]
        pods = list_uncovered_pods(world.pods, kept.values(), leaving=find_retiring_nodes(world.nodes, world.claims))
        asked = describe_pending_classes(pods, bound=world.pods, lists=lists, unavailable=self._short(now))
        found = {
            "pods": len(pods),
            "asking": self._asking(pods, find_classes_to_plan(asked, self._answers.all(), int(now.timestamp()))),
            "unfinished": sum(not launch.unreadable for launch in launches)
            + len(state.stale)
            + _untold(lists)
            + closed,
            "unwatched": len(state.unwatched),
        }
        key = ""
        if found["asking"] or found["unfinished"] or found["unwatched"]:
            key = documents.put_snapshot(
                self._store, task, lists, assignments=kept, assigned=assignments, in_flight=entering, questions=asked
            )
        return {"rings": rings, "refused": "", "snapshot": key, **found}

    def _short(self, now: datetime) -> list[str]:
        return [mark.offering.id for mark in self._ledger.unavailable(int(now.timestamp()))]

    def _asking(self, pods: Sequence[Pod], classes: Collection[str]) -> int:
        """Return the number of pods to plan for; all others have an event with the reason, and nothing has changed
        since.
        """
        return sum(pod.class_key in classes for pod in pods)

    def _tell(self, others: Sequence[OtherAutoscaler], task: Task, now: datetime) -> None:
        for other in others:
            logger.warning(other.message, guard=str(other.guard))
        for reason in self._guards.tell(others, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=reason)


def _untold(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """Return the number of pools and classes without a current condition.

    Users need the condition when they write the object, not at the first pending pod.
    """
    return count_unreported(
        [*lists["nodepools"], *lists["provisioners"]], [*lists["ec2nodeclasses"], *lists["awsnodetemplates"]]
    )


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    kube = environment.kube(task.cluster)
    look = PendingPodSearch(
        ListedCluster(kube),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        AutoscalerDetection(kube),
    )
    answer = look.answer(task, now, environment.lease_end(context, now))
    logger.info("looked for pending pods", **answer)
    metrics.publish(task.cluster.name, {"PodsPending": answer["pods"]})
    return answer
