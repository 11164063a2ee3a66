"""Find pending pods: the snapshot that everything else in this round is decided from.

The rings are noted before anything is listed: whoever rings after that is not answered by this look, and the release of the lease will
notice. What the ledger knows is read before the claims are listed, so that a claim it knows must be among them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, metrics
from joiner.adapters.cluster_view import ClusterView, ListedCluster
from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.lifecycle.declared_status import untold
from joiner.lifecycle.initialization import closed_too_long
from joiner.lifecycle.progress import open_assignments, progress, uncovered
from joiner.lifecycle.watching import WATCHED_FOR
from joiner.planning import Snapshot

logger = Logger()


class Look:
    """One look at the cluster; its parts are arguments so that a test can hand in its own."""

    def __init__(self, view: ClusterView, ledger: Ledger, store: Store) -> None:
        self._view = view
        self._ledger = ledger
        self._store = store

    def answer(self, task: Task, now: datetime, lease_until: int) -> dict[str, Any]:
        """``{"rings", "snapshot", "pods", "unfinished", "unwatched"}``; LeaseLost if the lease is somebody else's now."""
        rings = self._ledger.renew(task.execution.arn, task.lease_number, lease_until).rings
        launches = self._ledger.unrecorded_launches()
        launching = {claim for launch in launches for claim in launch.claims}
        assignments = {claim: assignment.classes for claim, assignment in self._ledger.assignments().items()}
        seen_since = int((now - WATCHED_FOR).timestamp())
        watched = {claim for wave in self._ledger.waves() if wave.seen_at >= seen_since for claim in wave.claims}
        lists = self._view.lists(expected_claims=launching | set(assignments))

        world = Snapshot.from_lists(lists)
        # Nobody but the holder launches, and it is here: what is written and not being launched never will be, its own included
        state = progress(world.claims, launching=launching, watched=watched, lease=task.lease_number + 1)
        kept = open_assignments(state.on_their_way, assignments, world.nodes, world.pods)
        closed = sum(closed_too_long(node, now) for node in world.nodes)
        entering = [claim.name for claim in state.entering]
        key = documents.put_snapshot(self._store, task, lists, assignments=kept, assigned=assignments, in_flight=entering)
        return {
            "rings": rings,
            "snapshot": key,
            "pods": len(uncovered(world.pods, kept.values())),
            "unfinished": len(launches) + len(state.stale) + _untold(lists) + closed,
            "unwatched": len(state.unwatched),
        }


def _untold(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """Whoever writes a pool wants to know at once whether it will do, not when the first pod waits for it."""
    return untold([*lists["nodepools"], *lists["provisioners"]], [*lists["ec2nodeclasses"], *lists["awsnodetemplates"]])


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """The Lambda's entry."""
    task = Task.parse(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    look = Look(ListedCluster(environment.kube(task.cluster)), environment.ledger(), environment.store())
    answer = look.answer(task, now, environment.lease_end(context, now))
    logger.info("looked for pending pods", **answer)
    metrics.publish(task.cluster.name, {"PodsPending": answer["pods"]})
    return answer
