"""Find pending pods: write the snapshot that all decisions of this round are made from.

The number of rings is read before anything is listed. A later ring is not covered by this snapshot, and the release of
the lease detects it. The ledger is read before claims are listed, so that every claim of the ledger must be in the
list.

Two reasons to do nothing are found here: another autoscaler creates nodes in this cluster, or an event already reported
to each pod why no node is launched for it.

The pods without a node are listed first. A batch that is still growing gets no snapshot: the function lists them again,
every half a second for two seconds. If more may come even then, the state machine waits a second and invokes the
function again.

Many listed pods are recorded in the cluster, so that their later events do not ring the doorbell. Without the record
they ring again, which is harmless.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, metrics
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import PLANNED, SELECTING, ClusterView, ListedCluster
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, yet_unstored
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.parallel_calls import call_each
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.store import Store
from joiner.adapters.warm_up import returns_at_warm_up
from joiner.cluster import Pod
from joiner.lifecycle.buffer_planning import are_buffers_due, describe_buffers, is_free_capacity_due
from joiner.lifecycle.claim_progress import assess_progress, list_uncovered_pods, open_assignments
from joiner.lifecycle.copied_claims import read_as_claims_of_users
from joiner.lifecycle.declared_status import (
    count_outdated_overlays,
    count_unreported,
)
from joiner.lifecycle.failed_claims import find_late_claims
from joiner.lifecycle.initialization import closed_too_long
from joiner.lifecycle.node_deadlines import WATCHED_FOR
from joiner.lifecycle.other_autoscalers import OtherAutoscaler, refusal_reason
from joiner.lifecycle.planning_back_off import (
    REPLICAS,
    PendingPodClass,
    describe_claims_to_launch,
    describe_missing_replicas,
    describe_pending_classes,
    find_classes_to_plan,
)
from joiner.lifecycle.pod_gathering import SHORT_PAUSE, Batch, BatchTimes, Gathering, missing_pods, must_wait
from joiner.lifecycle.replica_counts import count_missing_replicas
from joiner.lifecycle.unsettled_classes import describe_unsettled_classes, find_unsettled_classes
from joiner.names import NODE_CLASS_RESOURCES, POOL_RESOURCES
from joiner.planning import Snapshot
from joiner.planning.inputs.buffer_schedules import apply_buffer_schedules
from joiner.planning.inputs.capacity_buffers import capacity_buffer_pods
from joiner.pools.retiring_nodes import find_retiring_nodes
from joiner.pools.scheduled_pools import apply_schedules

logger = Logger()
environment.prepare_clients("dynamodb", "s3")

NOTHING: Mapping[str, Any] = {
    "complete": True,
    "snapshot": "",
    "pods": 0,
    "podsToPlan": 0,
    "unfinished": 0,
    "unwatched": 0,
}

CONTROLLERS_READ: Final = 32
"""Controllers of one batch that are read. A batch with more of them waits while new pods keep coming."""

LOOKS_AGAIN: Final = 4
"""How often one invocation lists the pods of a growing batch again. A second of this function costs as much as a wait
of the state machine and another invocation, which would begin later."""

FIRST_SEARCH: Final = Gathering()
DEFAULT_TIMES: Final = BatchTimes()


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
        listed_pods: ListedPodsRole,
        times: BatchTimes = DEFAULT_TIMES,
        default_spreads: Sequence[Mapping[str, Any]] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._answers = answers
        self._store = store
        self._guards = guards
        self._listed_pods = listed_pods
        self._times = times
        self._default_spreads = default_spreads
        self._sleep = sleep

    def answer(self, task: Task, now: datetime, lease_until: int, so_far: Gathering = FIRST_SEARCH) -> dict[str, Any]:
        """Return ``{"rings", "refused", "complete", "gathering", "snapshot", "pods", "podsToPlan", "unfinished",
        "unwatched"}``.

        `so_far` is the result of the previous searches for this batch. No snapshot is stored if there is nothing to do,
        or if the batch is not complete. Raises LeaseLost if another execution holds the lease now.
        """
        lease = self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        if left := yet_unstored(lease.stored_at, now):
            self._sleep(left)
        look = self._gather(task, lease_until, _Look(lease.rings, so_far, self._growing(so_far, self._unbound())))
        if look.growing is not None:
            return self._incomplete(look)
        others = self._guards.detect(now)
        self._report(others, task, now)
        if refused := refusal_reason(others):
            return {"rings": look.rings, "refused": refused, **NOTHING, "gathering": look.so_far.to_json()}
        recorded, lists, world = self._read(now)
        pending = Batch.of(world.pods).pending
        following = Gathering.of_next_batch(len(pending)).to_json()
        found = self._search(task, now, recorded, lists, world)
        self._record_listed(pending, look.so_far)  # last: a slow answer must not keep the snapshot from being stored
        return {"rings": look.rings, "refused": "", "complete": True, "gathering": following, **found}

    def _unbound(self) -> Sequence[Pod]:
        return Snapshot.from_lists({"pods": self._view.pods_without_node()}).pods

    def _gather(self, task: Task, lease_until: int, look: "_Look") -> "_Look":
        """Return the last look at a batch that grows: one every half a second, each after the rings are read again."""
        for _ in range(LOOKS_AGAIN):
            batch = look.growing
            if batch is None or not batch.pending:  # an event may be a second before the condition of its pod
                break
            so_far = replace(look.so_far, unrecordable=not self._record_listed(batch.pending, look.so_far))
            self._sleep(SHORT_PAUSE)
            so_far = so_far.after_another(SHORT_PAUSE, len(batch.pending))
            rings = self._ledger.renew(task.execution.arn, task.lease_number, lease_until).rings
            look = _Look(rings, so_far, self._growing(so_far, self._unbound()))
        return look

    def _read(self, now: datetime) -> "tuple[_Recorded, Mapping[str, Any], Snapshot]":
        """Return what the ledger records, then the lists of the cluster, and what they contain."""
        recorded = self._recorded(now)
        known = recorded.launching | set(recorded.assignments)
        lists = read_as_claims_of_users(
            apply_buffer_schedules(self._view.lists(expected_claims=known), now), recorded=known
        )
        # The virtual pods of buffers belong to no batch
        return recorded, lists, Snapshot.from_lists({**lists, "capacitybuffers": ()})

    def _recorded(self, now: datetime) -> "_Recorded":
        launches = self._ledger.unrecorded_launches()
        assignments = {claim: assignment.classes for claim, assignment in self._ledger.assignments().items()}
        seen_since = int((now - WATCHED_FOR).timestamp())
        watched = {claim for wave in self._ledger.waves() if wave.seen_at >= seen_since for claim in wave.claims}
        return _Recorded(launches, assignments, watched)

    def _search(
        self, task: Task, now: datetime, recorded: "_Recorded", lists: Mapping[str, Any], world: Snapshot
    ) -> dict[str, Any]:
        """Return the counts of what is to do; store the snapshot if there is anything."""
        # Only the lease's holder, this execution, launches: a claim without a launch in progress never gets an instance
        progress = assess_progress(
            world.claims,
            launching=recorded.launching,
            watched=recorded.watched,
            lease=task.lease_number + 1,
            late=find_late_claims(world.claims, world.nodes, now),
        )
        kept = open_assignments(progress.on_their_way, recorded.assignments, world.nodes, world.pods)
        pods = list_uncovered_pods(world.pods, kept.values(), leaving=find_retiring_nodes(world.nodes, world.claims))
        pools = apply_schedules(world.pools, now)
        missing = count_missing_replicas(pools, world.claims, world.nodes, recorded.launching)
        asked = _describe_pending(pods, missing, lists, world, self._short(now), launching=recorded.launching)
        answers, at = self._answers.all(), int(now.timestamp())
        classes = find_classes_to_plan(asked, answers, at)
        found = {
            "pods": len(pods),
            "podsToPlan": self._pods_to_plan(pods, classes)
            + sum(asked[key].pods for key in classes if key.startswith(REPLICAS))
            + are_buffers_due(asked, answers, at)
            + is_free_capacity_due(asked, answers, at),
            "unfinished": len(progress.stale) + _count_unfinished(recorded, lists, world, now),
            "unwatched": len(progress.unwatched),
        }
        key = ""
        if any(found[work] for work in ("podsToPlan", "unfinished", "unwatched")):
            key = documents.put_snapshot(
                self._store,
                task,
                lists,
                assignments=kept,
                assigned=recorded.assignments,
                in_flight=[claim.name for claim in progress.entering],
                pending_classes=asked,
                default_spreads=self._default_spreads,
            )
        return {"snapshot": key, **found}

    def _growing(self, so_far: Gathering, pods: Sequence[Pod]) -> Batch | None:
        """Return the batch among these pods if more pods of it may come; None if it is complete."""
        batch = Batch.of(pods)
        return batch if must_wait(so_far, batch, lambda: self._missing_pods(batch), self._times) else None

    def _incomplete(self, look: "_Look") -> dict[str, Any]:
        """Return the answer for a batch that may still grow. Its pods are listed again when it is complete."""
        pending = look.growing.pending if look.growing else ()
        recorded = self._record_listed(pending, look.so_far)
        following = replace(look.so_far.after_another(1, len(pending)), unrecordable=not recorded)
        found = {"complete": False, "gathering": following.to_json(), "pods": len(pending)}
        return {"rings": look.rings, "refused": "", **NOTHING, **found}

    def _record_listed(self, pending: Sequence[Pod], so_far: Gathering) -> bool:
        """Record the listed pods, so that their events do not ring; return False if that failed in this batch."""
        if so_far.unrecordable:
            return False
        try:
            if recorded := self._listed_pods.record(pending):
                logger.info("the events of the listed pods do not ring the doorbell any more", pods=recorded)
        except KubeError as error:  # they ring, and this execution lists again
            logger.warning("the listed pods could not be recorded: their events ring the doorbell", reason=str(error))
            return False
        return True

    def _missing_pods(self, batch: Batch) -> list[int | None]:
        """Return, for each controller of a pending pod, how many pods it has not created yet; None if unknown."""
        owners = list(batch.owners().values())
        if len(owners) > CONTROLLERS_READ:
            return [None]
        return [
            missing_pods(found, batch.pods_of(pod.owner_uid)) if isinstance(found, Mapping) else None
            for pod, found in call_each(
                owners, lambda pod: self._view.controller(pod.owner_kind, pod.namespace, pod.owner_name), KubeError
            )
        ]

    def _short(self, now: datetime) -> list[str]:
        return [mark.offering.id for mark in self._ledger.unavailable(int(now.timestamp()))]

    def _pods_to_plan(self, pods: Sequence[Pod], classes: Collection[str]) -> int:
        """Return the number of pods to plan for; all others have an event with the reason, and nothing has changed
        since.
        """
        return sum(pod.class_key in classes for pod in pods)

    def _report(self, others: Sequence[OtherAutoscaler], task: Task, now: datetime) -> None:
        for other in others:
            logger.warning(other.message, guard=str(other.guard))
        for reason in self._guards.report(others, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=reason)


@dataclass(frozen=True, slots=True)
class _Look:
    """One listing of a batch: the number of rings that was read before it, what the listings before it found, and the
    batch if more of its pods may come."""

    rings: int
    so_far: Gathering
    growing: Batch | None = None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the ledger records: launches that are not on their claims, the pod classes of each claim, and the claims
    that an execution awaits."""

    launches: Sequence[LaunchRecord]
    assignments: Mapping[str, Mapping[str, int]]
    watched: Collection[str]

    @property
    def launching(self) -> set[str]:
        return {claim for launch in self.launches for claim in launch.claims}


def _unreported(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """Return the number of pools and classes without a current condition.

    Users need the condition when they write the object, not at the first pending pod.
    """
    return count_unreported(_listed(lists, POOL_RESOURCES), _listed(lists, NODE_CLASS_RESOURCES))


def _describe_pending(
    pods: Sequence[Pod],
    missing: Mapping[str, int],
    lists: Mapping[str, Any],
    world: Snapshot,
    unavailable: Collection[str],
    *,
    launching: Collection[str],
) -> dict[str, PendingPodClass]:
    """Describe the pending pods, the missing nodes of static pools, the standalone claims, the capacity buffers, and
    what is to settle about node classes, for their back-offs."""
    return {
        **describe_pending_classes(pods, bound=world.pods, lists=lists, unavailable=unavailable),
        **describe_missing_replicas(missing, lists=lists, unavailable=unavailable),
        **describe_claims_to_launch(world.claims, launching, lists=lists, unavailable=unavailable),
        **describe_buffers(
            lists,
            served=bool(capacity_buffer_pods(lists)[0]),
            bound=world.pods,
            nodes=world.nodes,
            unavailable=unavailable,
        ),
        **describe_unsettled_classes(find_unsettled_classes(world.pools, lists, world.classes, world.claims)),
    }


def _count_unfinished(recorded: "_Recorded", lists: Mapping[str, Any], world: Snapshot, now: datetime) -> int:
    """Return the number of launches, status reports, finalizers and taints that a former execution left."""
    return (
        sum(not launch.unreadable for launch in recorded.launches)
        + _unreported(lists)
        + count_outdated_overlays(lists.get("nodeoverlays") or ())
        + len(find_unsettled_classes(world.pools, lists, world.classes, world.claims))
        + sum(closed_too_long(node, now) for node in world.nodes)
    )


def _listed(lists: Mapping[str, Sequence[Mapping[str, Any]]], resources: Sequence[str]) -> list[Mapping[str, Any]]:
    return [manifest for resource in resources for manifest in lists[resource]]


@returns_at_warm_up
@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    kube, spreads = environment.kube(task.cluster), environment.default_spreads()
    search = PendingPodSearch(
        ListedCluster(kube, (*PLANNED, *SELECTING) if spreads else PLANNED),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        AutoscalerDetection(kube),
        listed_pods=ListedPodsRole(kube),
        default_spreads=spreads,
        times=BatchTimes(
            idle=int(environment.setting("JOINER_BATCH_IDLE_SECONDS")),
            longest=int(environment.setting("JOINER_BATCH_LONGEST_SECONDS")),
        ),
    )
    so_far = Gathering.from_json(event["gathering"])
    answer = search.answer(task, now, environment.lease_end(context, now), so_far)
    logger.info("searched for pending pods", **answer)
    metrics.publish(task.cluster.name, {"PodsPending": answer["pods"]})
    return answer
