"""Detect drift: compare all claims with what would be launched now, and write the condition Drifted. Write the status
of every node class, whether a pool names it or not.

The classes were resolved and the instances described just before. Pools, classes and claims are read again. A claim of
another version, such as one of Karpenter, gets the present digests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, metrics
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.drift_detections import DriftDetections
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import kind_of, write_conditions
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.adapters.status_writing import write_declared_statuses
from joiner.adapters.store import Store
from joiner.disruption.drift import DRIFTED, DesiredNodes, NotCompared, apply_drift, find_drift, stamp_digests
from joiner.disruption.ended_capacity_reservations import ON_DEMAND_LABELS, has_left_reservation, relabel_claim
from joiner.lifecycle.declared_status import find_status_patch
from joiner.planning import Snapshot
from joiner.pools import InvalidManifest, NodeClaim, ResolvedNodeClass, complete_classes
from joiner.reporting.drift_events import report_drift, report_ended_reservation
from joiner.reporting.events import Event
from joiner.reporting.plan_events import report_class_not_ready, report_mistakes
from joiner.reporting.shortened_reasons import shortened

logger = Logger()

LISTED: Final = (
    kinds.NODECLAIMS,
    kinds.MACHINES,
    kinds.NODEPOOLS,
    kinds.PROVISIONERS,
    kinds.EC2NODECLASSES,
    kinds.AWSNODETEMPLATES,
)
SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class DeclaredClasses:
    """The manifests of all node classes, and the problems of all objects."""

    manifests: Sequence[Mapping[str, Any]]
    problems: Sequence[InvalidManifest]


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """What is written to one claim: its status if the condition changes, and annotations."""

    before: NodeClaim
    after: NodeClaim
    stamped: Mapping[str, str]

    @property
    def condition_changes(self) -> bool:
        """Return whether the condition must be written."""
        return self.after is not self.before


class DriftDetection:
    """One detection; its dependencies are arguments, which tests replace."""

    def __init__(self, kube: Kube, detections: DriftDetections, store: Store, time_left: TimeLeft = UNBOUNDED) -> None:
        self._kube = kube
        self._drift_detections = detections
        self._store = store
        self._time_left = time_left

    def answer(self, task: Task, keys: Mapping[str, str], now: datetime) -> dict[str, Any]:
        """Return ``{"drifted", "changed", "stamped", "notCompared", "reasons"}``: how many claims are drifted, whose
        condition changed, that got digests, and that could not be compared.

        `keys`: classes and instances (documents), digest (of pools and classes, as the sweep saw them). The
        detection is recorded only if everything was written, so that the next sweep repeats it otherwise.
        """
        desired, claims, declared = self._desired(keys)
        claims, ended, unlabelled = self._relabel(claims, desired, now)
        found = {claim.key: find_drift(claim, desired, now) for claim in claims}
        changes = [
            ClaimChange(claim, apply_drift(claim, found[claim.key], at=now), stamp_digests(claim, desired))
            for claim in claims
        ]
        wanted = [each for each in changes if each.condition_changes or each.stamped]
        answers, late = call_each_in_time(wanted, self._write, KubeError, self._time_left)
        written = [each for each, answer in answers if answer is None]
        failed = [f"{each.before.key}: {answer}" for each, answer in answers if answer is not None]
        failed += [f"{each.before.key}: no time was left" for each in late]
        failed += [*unlabelled, *self._write_classes(declared, desired, now)]
        changed = [each.after for each in written if each.condition_changes]
        pools = desired.pools
        events = [
            *(report_ended_reservation(claim) for claim in ended),
            *(event for claim in changed for event in report_drift(claim, pools.get(claim.pool_key))),
            *_report_classes(declared, desired),
        ]
        for unwritten in publish_events(self._kube, events, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=unwritten)
        for why in failed:
            logger.warning("a claim or a class could not be written", reason=why)
        if not failed:
            self._drift_detections.note(keys["digest"], int(now.timestamp()))
        uncompared = sorted({one.message for one in found.values() if isinstance(one, NotCompared)})
        drifted = [each.after for each in changes if each.after.conditions.true(DRIFTED) and not each.after.deleting]
        reasons = [f"{one.key} is drifted: {one.conditions[DRIFTED].reason}" for one in changed if one in drifted]
        return {
            "drifted": len(drifted),
            "changed": len(changed),
            "stamped": sum(bool(each.stamped) for each in written),
            "notCompared": sum(isinstance(one, NotCompared) for one in found.values()),
            "reasons": shortened([*failed, *uncompared, *reasons], SHOWN),
        }

    def _relabel(
        self, claims: list[NodeClaim], desired: DesiredNodes, now: datetime
    ) -> tuple[list[NodeClaim], list[NodeClaim], list[str]]:
        """Give claims and nodes whose reservation has ended the labels of on-demand nodes. Return all claims, those
        before their change, and what could not be written.
        """
        left = [one for one in claims if has_left_reservation(one, desired.instances.get(one.instance_id), now)]
        answers, late = call_each_in_time(left, self._write_labels, KubeError, self._time_left)
        done = [claim for claim, answer in answers if answer is None]
        failed = [f"{claim.key}: {answer}" for claim, answer in answers if answer is not None]
        failed += [f"{claim.key}: no time was left" for claim in late]
        names = {claim.key for claim in done}
        after = [relabel_claim(claim) if claim.key in names else claim for claim in claims]
        return after, done, failed

    def _write_labels(self, claim: NodeClaim) -> None:
        """Write the node first: the labels of the claim show the next detection whether both are written."""
        changes = {"metadata": {"labels": dict(ON_DEMAND_LABELS)}}
        if claim.node_name:
            try:
                self._kube.patch(kinds.NODES, claim.node_name, changes)
            except NotFound:
                logger.info("the node is gone", nodeclaim=claim.name, node=claim.node_name)
        self._kube.patch(kind_of(claim), claim.name, changes)

    def _write_classes(self, declared: DeclaredClasses, desired: DesiredNodes, now: datetime) -> list[str]:
        """Write the status of the classes that were resolved; return what could not be written."""
        current = _list_current(desired)
        find_patch = partial(find_status_patch, pools={}, classes=current, problems=declared.problems, at=now)
        return write_declared_statuses(self._kube, declared.manifests, find_patch, self._time_left)

    def _desired(self, keys: Mapping[str, str]) -> tuple[DesiredNodes, list[NodeClaim], DeclaredClasses]:
        lists = {kind.plural: self._kube.list(kind) for kind in LISTED}
        world = Snapshot.from_lists(lists)
        manifests = [
            {**manifest, "apiVersion": kind.api_version, "kind": kind.kind}
            for kind in kinds.NODE_CLASSES
            for manifest in lists[kind.plural]
        ]
        resolved = documents.get_node_classes(self._store, keys["classes"])
        desired = DesiredNodes(
            pools={pool.key: pool for pool in world.pools},
            classes={each.key: each for each in complete_classes(world.classes, resolved)},
            resolved=resolved,
            catalogue=documents.get_catalogue(self._store),
            instances=documents.get_instances(self._store, keys["instances"]),
        )
        declared = DeclaredClasses(manifests, world.problems)
        return desired, sorted(world.claims, key=lambda claim: claim.key), declared

    def _write(self, change: ClaimChange) -> None:
        claim = change.after
        if change.condition_changes:
            write_conditions(self._kube, claim)
        if change.stamped:
            self._kube.patch(kind_of(claim), claim.name, {"metadata": {"annotations": dict(change.stamped)}})


def _list_current(desired: DesiredNodes) -> dict[str, ResolvedNodeClass]:
    """Return the classes that have not changed since they were resolved, by key."""
    return {
        key: one
        for key, one in desired.resolved.items()
        if key in desired.classes and one.generation == desired.classes[key].generation
    }


def _report_classes(declared: DeclaredClasses, desired: DesiredNodes) -> list[Event]:
    """Return the events of classes that are not ready or have mistakes. A scale-up has the same, but only of the
    classes of pools, and only if pods or pools need it."""
    current = _list_current(desired).items()
    mistakes = report_mistakes(declared.manifests, declared.problems, ())
    return mistakes + [event for key, one in current for event in report_class_not_ready(desired.classes[key], one)]


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    detection = DriftDetection(
        environment.kube(task.cluster),
        environment.drift_detections(),
        environment.store(),
        environment.time_left(context),
    )
    keys = {name: str(event[name]) for name in ("classes", "instances", "digest")}
    answer = detection.answer(task, keys, environment.now())
    logger.info("detected drift", **answer)
    metrics.publish(task.cluster.name, {"NodesDrifted": answer["drifted"]})
    return answer
