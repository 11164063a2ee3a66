"""Find pending pods: write the snapshot that all decisions of this round are made from.

The number of rings is read before anything is listed. A later ring is not covered by this snapshot, and the release of
the lease detects it. The ledger is read before claims are listed, so that every claim of the ledger must be in the
list.

Two reasons to do nothing are found here: another autoscaler creates nodes in this cluster, or an event already reported
to each pod why no node is launched for it.

The pods without a node are listed first. A batch that is still growing gets no snapshot: the function lists them again,
every half a second for six seconds. If more may come even then, the state machine waits a second and invokes the
function again. An execution that has launched nodes lists once, and leaves a growing batch to another one: it is about
to register its nodes. A batch that was complete at the first look is compared with the pods of the snapshot: if more
have come meanwhile, it gathers, too.

A ring may come before the object behind it is stored. The lists of a snapshot begin when the objects of all counted
rings can be read.

Nothing is written in the cluster before other autoscalers are looked for, except the events about them. One that does
not keep Joiner from acting is reported when the batch is complete. Many listed pods are recorded in the cluster, so
that their later events do not ring the doorbell. Without the record they ring again, which is harmless.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.find_pending_pods.batch_looks import BatchLooks, Look, SearchTime
from joiner.adapters import documents, environment, metrics
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import PLANNED, SELECTING, ClusterView, ListedCluster
from joiner.adapters.held_pod_lists import mark_held_pods
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, Lease, yet_unstored
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.store import Store
from joiner.adapters.unwritten_claims import find_launched, list_unlaunched, with_launched
from joiner.adapters.warm_up import returns_at_warm_up
from joiner.cluster import Pod
from joiner.lifecycle.buffer_planning import are_buffers_due, describe_buffers, is_free_capacity_due
from joiner.lifecycle.claim_progress import assess_progress, find_uncovered_pods, open_assignments
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
    PlanningBackOff,
    describe_claims_to_launch,
    describe_missing_replicas,
    describe_pending_classes,
    find_classes_to_plan,
)
from joiner.lifecycle.pod_gathering import Batch, BatchTimes, Gathering
from joiner.lifecycle.replica_counts import count_missing_replicas
from joiner.lifecycle.unsettled_classes import UnsettledClass, describe_unsettled_classes, find_unsettled_classes
from joiner.names import NODE_CLASS_RESOURCES, POOL_RESOURCES
from joiner.planning import Snapshot
from joiner.planning.inputs.buffer_schedules import apply_buffer_schedules
from joiner.planning.inputs.capacity_buffers import capacity_buffer_pods
from joiner.pools import NodeClaim
from joiner.pools.pool_holds import PoolHold
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

PAUSE_OF_THE_MACHINE: Final = 1.0
"""Seconds that the state machine waits between two searches for a batch."""

FIRST_SEARCH: Final = Gathering()
DEFAULT_TIMES: Final = BatchTimes()
REAL_TIME: Final = SearchTime()


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
        timing: SearchTime = REAL_TIME,
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._answers = answers
        self._store = store
        self._guards = guards
        self._looks = BatchLooks(view, listed_pods, times, timing)
        self._default_spreads = default_spreads
        self._sleep = timing.sleep
        self._clock = timing.clock
        self._time_left = timing.left

    def answer(self, task: Task, now: datetime, lease_until: int, so_far: Gathering = FIRST_SEARCH) -> dict[str, Any]:
        """Return ``{"rings", "refused", "complete", "gathering", "snapshot", "pods", "podsToPlan", "unfinished",
        "unwatched"}``.

        `so_far` is the result of the previous searches for this batch. No snapshot is stored if there is nothing to do,
        or if the batch is not complete. Raises LeaseLost if another execution holds the lease now.
        """
        began = self._clock()

        def renew() -> Lease:
            return self._ledger.renew(task.execution.arn, task.lease_number, lease_until)

        def await_stored(lease: Lease) -> None:
            if left := yet_unstored(lease.stored_at, now + timedelta(seconds=self._clock() - began)):
                self._sleep(left)

        await_stored(lease := renew())
        look = self._looks.look(lease, so_far)
        if look.growing and not look.batch.pending:  # there is nothing to record
            return self._incomplete(look)
        with ThreadPoolExecutor() as together:
            detected = together.submit(self._guards.detect, now)
            recorded = None if look.growing else self._recorded(now)
        others = detected.result()
        if refused := refusal_reason(others):
            self._report(others, task, now)
            return {"rings": lease.rings, "refused": refused, **NOTHING, "gathering": so_far.to_json()}
        look = self._looks.gather(first := look, renew)
        if look.growing or self._is_over(look, first):
            return self._incomplete(look)
        await_stored(look.lease)
        read = self._read(now, recorded)
        look = self._looks.gather(compared := self._looks.compare(look, read.world.pods), renew)
        if look.growing or self._is_over(look, compared):
            return self._incomplete(look)
        if look is not compared:  # pods came while the snapshot was taken
            await_stored(look.lease)
            read = self._read(now)
        self._report(others, task, now)
        pending = Batch.of(read.world.pods).pending
        following = Gathering.of_next_batch(len(pending)).to_json()
        found = self._search(task, now, read)
        # Last: a slow answer must not keep the snapshot from being stored
        self._looks.record_listed(pending, look.so_far)
        return {"rings": look.lease.rings, "refused": "", "complete": True, "gathering": following, **found}

    def _is_over(self, look: Look, first: Look) -> bool:
        """Return whether waiting for the batch took the time of the snapshot: then the next search takes it."""
        return look is not first and self._time_left.over

    def _read(self, now: datetime, recorded: "_Recorded | None" = None) -> "_Reading":
        """Read what the ledger records, if it was not read before, and then the lists of the cluster."""
        recorded = recorded or self._recorded(now)
        known = recorded.launching | set(recorded.assignments)
        listed = with_launched(self._view.lists(expected_claims=known), find_launched(recorded.launches))
        lists = read_as_claims_of_users(apply_buffer_schedules(listed, now), recorded=known)
        # The virtual pods of buffers belong to no batch
        world = Snapshot.from_lists({**lists, "capacitybuffers": ()})
        return _Reading(recorded, *mark_held_pods(lists, world, now, self._view.disruption_budgets))

    def _recorded(self, now: datetime) -> "_Recorded":
        """Read the ledger, all at the same time.

        Only the lease's holder writes new launches, assignments and back-offs. Others write meanwhile, without harm:

        * check_registration deletes the assignment of a node that it opens or gives up, forget_nodes that of a node
          that ended. If it was read before, the claim, which is listed later, is no longer on its way, or counts for
          this round only. If it was deleted before, the pods are placed on the open node, or are planned anew.
        * Waves begin and end, surveys and interruptions add unavailable offerings, and check_registration begins and
          ends holds of pools: the next round reads them.
        """
        at = int(now.timestamp())
        with ThreadPoolExecutor() as together:
            launches = together.submit(self._ledger.unrecorded_launches)
            assignments = together.submit(self._ledger.assignments)
            watched = together.submit(self._watched, now)
            marks = together.submit(self._ledger.unavailable, at)
            holds = together.submit(self._ledger.pool_holds)
            answers = together.submit(self._answers.all)
        return _Recorded(
            launches.result(),
            {claim: assignment.classes for claim, assignment in assignments.result().items()},
            {claim for claim, assignment in assignments.result().items() if assignment.failed_writes.wait(at)},
            watched.result(),
            [mark.offering.id for mark in marks.result()],
            [hold for hold in holds.result() if hold.holds(at)],
            answers.result(),
        )

    def _watched(self, now: datetime) -> set[str]:
        """Return the claims that an execution awaits."""
        seen_since = int((now - WATCHED_FOR).timestamp())
        awaited = self._ledger.awaited_claims(wave for wave in self._ledger.waves() if wave.seen_at >= seen_since)
        return {claim for claims in awaited.values() for claim in claims}

    def _search(self, task: Task, now: datetime, read: "_Reading") -> dict[str, Any]:
        """Return the counts of what is to do; store the snapshot if there is anything."""
        recorded, lists, world = read.recorded, read.lists, read.world
        # Only the lease's holder, this execution, launches: a claim without a launch in progress never gets an instance
        progress = assess_progress(
            world.claims,
            launching=recorded.launching,
            watched=recorded.watched,
            lease=task.lease_number + 1,
            late=find_late_claims(world.claims, world.nodes, now),
        )
        kept = open_assignments(progress.on_their_way, recorded.assignments, world.nodes, world.pods)
        pods = find_uncovered_pods(world.pods, kept.values(), world.nodes, world.claims)
        asked = _describe_pending(pods, now, read)
        answers, at = recorded.back_offs, int(now.timestamp())
        classes = find_classes_to_plan(asked, answers, at)
        found = {
            "pods": len(pods),
            "podsToPlan": self._pods_to_plan(pods, classes)
            + sum(asked[key].pods for key in classes if key.startswith(REPLICAS))
            + are_buffers_due(asked, answers, at)
            + is_free_capacity_due(asked, answers, at),
            "unfinished": sum(claim.name not in recorded.undeleted for claim in progress.stale)
            + _count_unfinished(recorded, lists, world, now),
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
                unwritten=recorded.find_unwritten(world.claims),
                pending_classes=asked,
                default_spreads=self._default_spreads,
            )
        return {"snapshot": key, **found}

    def _incomplete(self, look: Look) -> dict[str, Any]:
        """Return the answer for a batch that may still grow. Its pods are listed again when it is complete."""
        following = self._looks.leave(look, PAUSE_OF_THE_MACHINE)
        found = {"complete": False, "gathering": following.to_json(), "pods": len(look.batch.pending)}
        return {"rings": look.lease.rings, "refused": "", **NOTHING, **found}

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
class _Recorded:
    """What the ledger records: launches that are not on their claims, the pod classes of each claim, the claims whose
    deletion failed and is not due again, those that an execution awaits, the ids of unavailable offerings, the holds in
    effect, and the back-offs of pods that no plan could place."""

    launches: Sequence[LaunchRecord]
    assignments: Mapping[str, Mapping[str, int]]
    undeleted: Collection[str]
    watched: Collection[str]
    unavailable: Sequence[str]
    holds: Sequence[PoolHold]
    back_offs: Mapping[str, PlanningBackOff]

    @property
    def launching(self) -> set[str]:
        return {claim for launch in self.launches for claim in launch.claims}

    def find_unwritten(self, claims: Sequence[NodeClaim]) -> list[str]:
        """Return the claims without the outcome of their launch; others of the launch may have theirs."""
        failing = (launch for launch in self.launches if launch.unreadable or launch.failed_writes.tries)
        return list_unlaunched(claims, {name for launch in failing for name in launch.claims})


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the ledger recorded, the lists of the cluster right after that, and what they contain."""

    recorded: _Recorded
    lists: Mapping[str, Any]
    world: Snapshot


def _unreported(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """Return the number of pools and classes without a current condition.

    Users need the condition when they write the object, not at the first pending pod.
    """
    return count_unreported(_listed(lists, POOL_RESOURCES), _listed(lists, NODE_CLASS_RESOURCES))


def _describe_pending(
    pods: Sequence[Pod],
    now: datetime,
    read: "_Reading",
) -> dict[str, PendingPodClass]:
    """Describe the pending pods, the missing nodes of static pools, the standalone claims, the capacity buffers, and
    what is to settle about node classes, for their back-offs."""
    lists, world, unavailable, holds = read.lists, read.world, read.recorded.unavailable, read.recorded.holds
    pools, launching = apply_schedules(world.pools, now), read.recorded.launching
    missing = count_missing_replicas(pools, world.claims, world.nodes, launching)
    return {
        **describe_pending_classes(pods, bound=world.pods, lists=lists, unavailable=unavailable, holds=holds),
        **describe_missing_replicas(missing, lists=lists, unavailable=unavailable, holds=holds),
        **describe_claims_to_launch(world.claims, launching, lists=lists, unavailable=unavailable),
        **describe_buffers(
            lists,
            served=bool(capacity_buffer_pods(lists)[0]),
            bound=world.pods,
            nodes=world.nodes,
            unavailable=unavailable,
            holds=holds,
        ),
        **describe_unsettled_classes(_unsettled(lists, world)),
    }


def _count_unfinished(recorded: "_Recorded", lists: Mapping[str, Any], world: Snapshot, now: datetime) -> int:
    """Return the number of launches, status reports, finalizers and taints that a former execution left."""
    at, there = int(now.timestamp()), {claim.name for claim in world.claims}
    return (
        sum(not (launch.unreadable or launch.waits(at, there)) for launch in recorded.launches)
        + _unreported(lists)
        + count_outdated_overlays(lists.get("nodeoverlays") or ())
        + len(_unsettled(lists, world))
        + sum(closed_too_long(node, now) for node in world.nodes)
    )


def _unsettled(lists: Mapping[str, Any], world: Snapshot) -> list[UnsettledClass]:
    return find_unsettled_classes(world.pools, lists, world.classes, world.claims, world.problems)


def _listed(lists: Mapping[str, Sequence[Mapping[str, Any]]], resources: Sequence[str]) -> list[Mapping[str, Any]]:
    return [manifest for resource in resources for manifest in lists[resource]]


def read_batch_times(event: Mapping[str, Any]) -> BatchTimes:
    """Return the times of this installation. An execution that has launched nodes lists a growing batch once: its nodes
    may register any time, and another execution plans for the batch."""
    return BatchTimes(
        idle=int(environment.setting("JOINER_BATCH_IDLE_SECONDS")),
        longest=int(environment.setting("JOINER_BATCH_LONGEST_SECONDS")),
        looks_again=0 if event.get("launched") else DEFAULT_TIMES.looks_again,
    )


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
        times=read_batch_times(event),
        timing=SearchTime(left=environment.time_left(context)),
    )
    so_far = Gathering.from_json(event["gathering"])
    answer = search.answer(task, now, environment.lease_end(context, now), so_far)
    logger.info("searched for pending pods", **answer)
    metrics.publish(task.cluster.name, {"PodsPending": answer["pods"]})
    return answer
