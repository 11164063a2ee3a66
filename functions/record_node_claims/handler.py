"""Record node claims: turn the plan into claims in the cluster, assignments in the ledger, and launches that are ready
to be sent.

The order of the steps allows the function to stop at any point. Claims of leases that ended are deleted first. Then,
the assignments are written before the claims: a claim that exists has its assignment, and an
assignment without a claim has no effect. Launches are written last, to the bucket only: EC2 gets no request for a claim
that is not written. Names are made of the execution, the round and the node's position in the plan, so a second try
writes the same objects.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import starmap
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.record_node_claims.buffer_recording import (
    PlacedBuffer,
    list_buffered_claims,
    place_buffers,
    report_buffers,
    write_buffer_statuses,
)
from functions.record_node_claims.claim_writer import ClaimIntent, ClaimWriter, list_intents
from functions.record_node_claims.unlaunched_claims import Standing, UnlaunchedClaims
from joiner.adapters import documents, environment
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.documents import KeptSnapshot
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import list_claims, write_conditions
from joiner.adapters.kube_classes import write_finalizer_changes
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.status_writing import write_declared_statuses
from joiner.adapters.store import Store
from joiner.adapters.warm_up import returns_at_warm_up
from joiner.catalogue import Catalogue, close_unsatisfiable_pools
from joiner.catalogue.class_compatibility import close_excluded_pools
from joiner.launching import Launch
from joiner.launching.launch_grouping import RefusedClaim, group_launches
from joiner.lifecycle.class_finalizers import find_finalizer_changes
from joiner.lifecycle.declared_status import find_status_patch
from joiner.lifecycle.planning_back_off import keys_of_unlaunched_nodes
from joiner.lifecycle.unsettled_classes import describe_unsettled_classes, find_unsettled_classes
from joiner.names import NODE_CLASS_RESOURCES, POOL_RESOURCES
from joiner.planning import Plan, Snapshot
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.inputs.claim_pools import count_left_out, with_claim_pools
from joiner.pools import InvalidManifest, NodeClaim, ResolvedNodeClass
from joiner.pools.absent_classes import with_deleted_classes
from joiner.reporting import plan_events as reporting
from joiner.reporting.events import Event
from joiner.reporting.launch_conditions import (
    explain_unlaunched_claims,
    report_copied,
    report_undeleted,
    report_unlaunched,
)

logger = Logger()
environment.prepare_clients("dynamodb", "s3")

GROUPS_AT_ONCE: Final = 150
"""Maximum of new launches in one pass, and of open ones.

The results of all are one result of a Map, limited to 256 KiB. Each launch adds about 10 of the 25,000 events of an
execution. The next pass of the same execution plans the others again.
"""

DECLARED = (*POOL_RESOURCES, *NODE_CLASS_RESOURCES, kinds.NODE_OVERLAYS.plural)


class ClaimRecording:
    """One recording; its dependencies are arguments, which tests replace."""

    def __init__(
        self, kube: Kube, ledger: Ledger, answers: PlanningBackOffs, store: Store, time_left: TimeLeft = UNBOUNDED
    ) -> None:
        self._time_left = time_left
        self._answers = answers
        self._kube = kube
        self._ledger = ledger
        self._store = store

    def answer(self, task: Task, keys: Mapping[str, str], now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"launches", "groups", "claims", "postponed", "events"}``.

        `keys`: plan, classes, snapshot. `postponed` counts the claims that are not written, because one pass has too
        many launches or because no time is left. `events` is the key of the events to write. Raises LeaseLost if
        another execution holds the lease now.
        """
        read = self._read(task, keys, lease_until)
        kept, classes, plan = read.kept, read.classes, read.plan
        world = with_claim_pools(kept.world, task.lease_number).with_launch_templates(classes)
        planned = list_intents(plan, world, classes, task)
        selection = self._select(planned, task, read.catalogue)
        self._hold_classes(kept, selection.wanted, now)
        names = {intent.claim.name for intent in selection.wanted}
        undeleted = UnlaunchedClaims(self._kube, self._ledger, task, self._time_left).delete(read.standing, names, now)
        opened = documents.launches_of(read.standing.open_launches[:GROUPS_AT_ONCE])
        buffers = self._keep_buffers(kept, plan, selection.wanted, now)
        writer = ClaimWriter(self._kube, self._ledger, task, self._time_left)
        written = writer.write(selection.wanted)
        writer.assign_in_flight(plan, kept.assigned, on_their_way=kept.world.assignments)
        complete = len(written) == len(selection.wanted)
        launches = selection.launches if complete else _group(written, task, read.catalogue)[0]
        key = documents.put_launches(self._store, task, [*opened, *launches])
        self._back_off(selection.refused, keys["snapshot"], now)
        problems = _find_problems(world, plan, read.catalogue)
        unlaunched = self._unlaunched_claims(world, plan, problems, [*selection.refused, *writer.refused], now)
        self._write_statuses(kept, problems, classes, now)
        write_buffer_statuses(self._kube, buffers, now)
        refused = [(each.claim, refusal) for each, refusal in (*selection.refused, *writer.refused)]
        _log_missing_claims(refused, selection.postponed, len(launches), len(writer.left), len(written))
        events = [
            *_on_pods(plan, kept, written, task),
            *reporting.report_mistakes(_declared(kept), problems, refused),
            *_on_classes(kept, classes),
            *report_buffers(buffers),
            *map(report_unlaunched, unlaunched),
            *map(report_copied, writer.copied),
            *starmap(report_undeleted, undeleted),
        ]
        return {
            "launches": key,
            "groups": list(range(len(opened) + len(launches))),
            "claims": len(written),
            "postponed": selection.postponed + len(writer.left) + _count_postponed_claims(kept.world, written),
            "events": documents.put_events(self._store, task, "planned", events),
        }

    def _keep_buffers(
        self, kept: KeptSnapshot, plan: Plan, wanted: Sequence[ClaimIntent], now: datetime
    ) -> list[PlacedBuffer]:
        """Return the buffers. The claims for them are recorded before they are written: the sweep keeps their nodes as
        soon as they exist."""
        if buffers := place_buffers(kept, plan):
            self._answers.put_buffer_claims(list_buffered_claims(kept, plan, wanted), int(now.timestamp()))
        return buffers

    def _select(self, planned: Sequence[ClaimIntent], task: Task, catalogue: Catalogue) -> "_Selection":
        """Return what this pass writes of a plan."""
        launches, refused = _group(planned, task, catalogue)
        postponed = {claim for launch in launches[GROUPS_AT_ONCE:] for claim in launch.claims}
        return _Selection(
            launches[:GROUPS_AT_ONCE],
            [each for each in planned if each.claim.name not in refused and each.claim.name not in postponed],
            [(each, refused[each.claim.name]) for each in planned if each.claim.name in refused],
            len(postponed),
        )

    def _back_off(self, refused: Sequence[tuple[ClaimIntent, RefusedClaim]], snapshot: str, now: datetime) -> None:
        """Let the pods of claims for which no EC2 request is possible wait longer each time."""
        if classes := keys_of_unlaunched_nodes((intent.node.pool, intent.node.classes) for intent, _ in refused):
            self._answers.refuse(documents.get_pending_classes(self._store, snapshot), classes, int(now.timestamp()))

    def _unlaunched_claims(
        self,
        world: Snapshot,
        plan: Plan,
        problems: Sequence[InvalidManifest],
        refused: Sequence[tuple[ClaimIntent, RefusedClaim]],
        now: datetime,
    ) -> list[NodeClaim]:
        """Return the standalone claims that this pass does not launch, with the reason; write it into their status."""
        refusals = {each.claim.key: refusal for each, refusal in refused}
        found, changed = explain_unlaunched_claims(world, plan, problems, refusals, now)
        answers, _ = call_each_in_time(
            changed, lambda each: write_conditions(self._kube, each), KubeError, self._time_left
        )  # the next pass writes those for which no time is left
        for claim, answer in answers:
            if isinstance(answer, KubeError):
                logger.warning("a claim's status could not be written", nodeclaim=claim.name, reason=str(answer))
        return found

    def _back_off_classes(self, kept: KeptSnapshot, now: datetime) -> None:
        """Let what this pass settles about node classes start no other scale-up for a while, whether the writes succeed
        or not: what is settled is not found again.
        """
        world = kept.world
        found = find_unsettled_classes(world.pools, kept.lists, world.classes, world.claims, world.problems)
        if asked := describe_unsettled_classes(found):
            self._answers.refuse(asked, asked, int(now.timestamp()))

    def _hold_classes(self, kept: KeptSnapshot, wanted: Sequence[ClaimIntent], now: datetime) -> None:
        """Give classes with claims the finalizer before the claims are created; remove it from deleted ones without."""
        self._back_off_classes(kept, now)
        claims = [*kept.world.claims, *(intent.claim for intent in wanted)]
        for reason in write_finalizer_changes(self._kube, find_finalizer_changes(_class_manifests(kept), claims)):
            logger.warning("the finalizer of a class could not be written", reason=reason)

    def _read(self, task: Task, keys: Mapping[str, str], lease_until: int) -> "_Inputs":
        """Read everything at the same time, while the lease is renewed; raises LeaseLost.

        Only the lease's holder writes new launches, assignments and claims, and the documents of this execution are
        written once. Others delete meanwhile, without harm: check_registration drops the assignments of nodes that it
        opens or gives up, forget_nodes those of nodes that ended, with their claims. These claims were launched, so
        none is taken for one that never will be; to delete an assignment again does nothing, and one that is rewritten
        is dropped by the next holder, because nothing waits for its claim.
        """
        with ThreadPoolExecutor() as together:
            kept = together.submit(KeptSnapshot.read, self._store, keys["snapshot"])
            classes = together.submit(documents.get_node_classes, self._store, keys["classes"])
            plan = together.submit(documents.get_plan, self._store, keys["plan"])
            catalogue = together.submit(documents.get_catalogue, self._store)
            standing = together.submit(self._read_standing)
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        return _Inputs(kept.result(), classes.result(), plan.result(), catalogue.result(), standing.result())

    def _read_standing(self) -> Standing:
        assigned = self._ledger.assignments()  # before the claims: an assignment that has no claim now never gets one
        return Standing(assigned, self._ledger.unrecorded_launches(), list_claims(self._kube).claims)

    def _write_statuses(
        self,
        kept: KeptSnapshot,
        problems: Sequence[InvalidManifest],
        classes: Mapping[str, ResolvedNodeClass],
        now: datetime,
    ) -> None:
        """Write the conditions of pools and classes; the next pass retries a failed write."""
        find_patch = partial(
            find_status_patch,
            pools={pool.key: pool for pool in kept.world.pools},
            classes=classes,
            problems=problems,
            at=now,
            declared=with_deleted_classes(kept.world.classes, _class_manifests(kept)),
            claims=kept.world.claims,
        )
        for reason in write_declared_statuses(self._kube, _declared(kept), find_patch):
            logger.warning("a status could not be written", reason=reason)


@dataclass(frozen=True, slots=True)
class _Selection:
    """The part of a plan that one pass writes.

    `wanted` are the claims of `launches`. `refused` are claims for which no EC2 request is possible, `postponed` counts
    the claims of further launches.
    """

    launches: Sequence[Launch]
    wanted: Sequence[ClaimIntent]
    refused: Sequence[tuple[ClaimIntent, RefusedClaim]]
    postponed: int


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What one pass is made from: the documents of its round, the catalogue, and what was there before."""

    kept: KeptSnapshot
    classes: Mapping[str, ResolvedNodeClass]
    plan: Plan
    catalogue: Catalogue
    standing: Standing


def _group(
    planned: Sequence[ClaimIntent], task: Task, catalogue: Catalogue
) -> tuple[Sequence[Launch], dict[str, RefusedClaim]]:
    """Return the launches for the claims of a plan, and by claim name why EC2 cannot be asked for it."""
    if not planned:
        return (), {}
    launches, refusals = group_launches(
        [intent.wanted for intent in planned],
        catalogue,
        task.cluster,
        execution=task.execution.name,
        attempt=task.round,
    )
    return launches, {refusal.claim: refusal for refusal in refusals}


def _find_problems(world: Snapshot, plan: Plan, catalogue: Catalogue) -> tuple[InvalidManifest, ...]:
    """Return the problems of all objects; a pool has an error if nothing in the catalogue meets its requirements, or if
    its class excludes all that does."""
    problems = tuple(dict.fromkeys((*world.problems, *plan.problems)))
    if not plan.problems:
        return problems
    return close_unsatisfiable_pools(close_excluded_pools(problems), world.pools, catalogue)


def _count_postponed_claims(world: Snapshot, written: Sequence[ClaimIntent]) -> int:
    """Return how many standalone claims wait for a plan that takes them. If this one launches none, the sweep's next
    execution takes others."""
    return count_left_out(world) if any(not intent.claim.lease for intent in written) else 0


def _on_pods(plan: Plan, kept: KeptSnapshot, written: Sequence[ClaimIntent], task: Task) -> list[Event]:
    new = [(intent.claim, intent.node) for intent in written]
    pods = kept.named({key for key in reporting.list_planned_pods(plan, new) if not is_buffer_pod(key)})
    claims = {claim.name: claim for claim in kept.world.claims}
    return reporting.report_plan(plan, new, pods, claims, task.execution.name)


def _on_classes(kept: KeptSnapshot, classes: Mapping[str, ResolvedNodeClass]) -> list[Event]:
    return [
        event
        for node_class in kept.world.classes
        if node_class.key in classes
        for event in reporting.report_class_not_ready(node_class, classes[node_class.key])
    ]


def _log_missing_claims(
    refused: Sequence[tuple[NodeClaim, RefusedClaim]], postponed: int, launches: int, left: int, written: int
) -> None:
    for claim, refusal in refused:
        logger.error("a claim was not made", nodeclaim=claim.name, nodepool=claim.pool, reason=refusal.message)
    if postponed:
        logger.warning("more launches than one pass records", postponed=postponed, recorded=launches)
    if left:
        logger.warning("no time was left to write all claims", postponed=left, written=written)


def _declared(kept: KeptSnapshot) -> list[Mapping[str, Any]]:
    """Return the manifests of all pools, classes and NodeOverlays."""
    return [manifest for plural in DECLARED for manifest in kept.lists.get(plural, ())]


def _class_manifests(kept: KeptSnapshot) -> list[Mapping[str, Any]]:
    return [manifest for plural in NODE_CLASS_RESOURCES for manifest in kept.lists.get(plural, ())]


@returns_at_warm_up
@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    parts = (
        environment.kube(task.cluster),
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
    )
    recording = ClaimRecording(*parts, environment.time_left(context))
    keys = {name: str(event[name]) for name in ("plan", "classes", "snapshot")}
    answer = recording.answer(task, keys, now, environment.lease_end(context, now))
    logger.info("recorded node claims", **answer)
    return answer
