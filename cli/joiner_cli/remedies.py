"""What would have to change so that a pending pod gets a node of a pool: only what a plan with the change confirms.

For the pod, the pool, its class, and the settings and overlays of the cluster, all changes together are planned first.
If the pod is placed then, each change that the plan does not need is left out. If no side suffices, the cluster is
changed with each of the others, and then all of them together. Without spot prices, all this is planned after a plan
with Spot Instances.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from joiner import names
from joiner.catalogue.assumed_spot_offerings import lacks_spot_prices
from joiner.cluster import Node, Pod, Requirements, Resources
from joiner.planning import Plan, Reason, Snapshot
from joiner.planning.planner import Planner
from joiner.pools import NodePool
from joiner_cli.cluster_changes import ChangeOfOverlays, ChangeOfSettings, changes_of_cluster
from joiner_cli.manifest_changes import (
    DROP_AFFINITY,
    MOST_ALTERNATIVES,
    ChangeOfClass,
    ChangeOfPod,
    ChangeOfPool,
    changes_of_pod,
    changes_of_pool,
    changes_of_settings,
    changes_of_size,
    drops_within_terms,
)
from joiner_cli.manifest_plan import ManifestPlan
from joiner_cli.missing_spot_prices import SPOT_POOLS, requires_spot
from joiner_cli.rendering.text_columns import format_dollars
from joiner_cli.what_if_plans import apply_plan, what_if_effort

NOT_FOUND: Final = "no change of the pod and of this pool alone was found that places it"
ALONE: Final = "nothing; a plan without the other pending pods places it"
WITH_PRICES: Final = "nothing; a plan with spot prices places it"
ASSUMED: Final = "this assumes Spot Instances, for which the catalogue has no prices"

Change = ChangeOfPod | ChangeOfPool | ChangeOfClass | ChangeOfSettings | ChangeOfOverlays


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """A plan with changes. ``reason`` says why the pod stays pending; ``where`` describes the node that it gets."""

    placed: bool
    where: str = ""
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class RemedySearch:
    """Plans one pending pod with changes, in one pool, while the rest of the plan stays."""

    pod: Pod
    pool: NodePool
    reason: Reason
    found: ManifestPlan
    assumes_spot: bool = False
    planner: Planner = field(default_factory=Planner)

    @classmethod
    def of(
        cls, pod: Pod, pool: NodePool, reason: Reason, found: ManifestPlan, with_spot: Callable[[], ManifestPlan]
    ) -> "RemedySearch":
        """Start a search. Without spot prices, it starts from the plan ``with_spot`` for a pod or a pool that requires
        Spot Instances."""
        spot_only = found.manifests.snapshot.closed_pools.get(pool.key) in SPOT_POOLS
        if not (requires_spot(pod) or spot_only) or not lacks_spot_prices(found.catalogue.catalogue):
            return cls(pod, pool, reason, found)
        spot = with_spot()
        reasons = (one for one in _reasons(pod, spot.plan) if one.pool in (pool.key, pool.name))
        return cls(pod, pool, next(reasons, reason), spot, assumes_spot=True)

    def describe(self) -> str:
        """Return the changes that place the pod, as a sentence without its end."""
        if not self._plan(()).placed:
            changes = self._describe_changes()
        elif self.assumes_spot and not _is_pending(self.pod, self.found.plan):
            return WITH_PRICES
        else:
            changes = ALONE
        return changes if changes == NOT_FOUND or not self.assumes_spot else f"{changes}; {ASSUMED}"

    def _describe_changes(self) -> str:
        snapshot, catalogue = self.found.manifests.snapshot, self.found.catalogue.catalogue
        of_pod, ceilings = self._changes_of_pod(), self.found.request.limits.ceilings
        of_class = changes_of_settings(snapshot.node_class(self.pool), self.pool, self.reason, catalogue)
        of_cluster = changes_of_cluster(self.pod, snapshot, catalogue, ceilings)
        sides = [self._smallest(of_pod), self._change_pool(), self._smallest(of_class), self._smallest(of_cluster)]
        if not any(sides) and of_cluster:
            sides = [
                self._smallest([*of_pod, *of_cluster]),
                self._change_pool(others=of_cluster),
                self._smallest([*of_class, *of_cluster]),
            ]
        if not any(sides):
            sides = [self._change_pool(of_pod, others=[*of_class, *of_cluster])]
        found = list(dict.fromkeys(self._describe(one) for one in sides if one))
        return ("; or " if any(", and " in one for one in found) else ", or ").join(found) or NOT_FOUND

    def _changes_of_pod(self) -> list[ChangeOfPod]:
        """Return the changes of the pod. If it is also too large, which only a plan without its other rules shows, it
        also requests less.
        """
        changes = changes_of_pod(self.pod, self.pool, self.reason)
        return changes if self.reason.lacks else [*changes, *self._changes_of_size(changes)]

    def _changes_of_size(self, changes: Sequence[Change]) -> list[ChangeOfPod]:
        """Return the change of what the pod requests if it is too large after these changes."""
        after = self._plan(changes)
        return changes_of_size(self.pod, after.reason.lacks) if after.reason and not after.placed else []

    def _change_pool(self, of_pod: Sequence[ChangeOfPod] | None = None, others: Sequence[Change] = ()) -> list[Change]:
        """Return the smallest changes for the first alternative of the requirements that the pool can meet. With
        changes of the pod, the requirements are those that it has after them, and it requests less if it is still too
        large.
        """
        pod = reduce(lambda before, one: one.apply(before), of_pod or (), self.pod)
        for wanted in (pod.constraints.on_new_nodes() or (Requirements(),))[:MOST_ALTERNATIVES]:
            changes = [*(of_pod or ()), *changes_of_pool(pod, self.pool, wanted), *others]
            if of_pod is not None and pod.requests == self.pod.requests:
                changes = [*self._changes_of_size(changes), *changes]
            if enough := self._smallest(changes):
                return enough
        return []

    def _smallest(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes without those that the plan does not need; empty if all of them do not suffice."""
        if not changes or not self._plan(changes).placed:
            return []
        needed = list(changes)
        for one in changes:
            fewer = [other for other in needed if other is not one]
            if self._plan(fewer).placed:
                needed = fewer
        if DROP_AFFINITY in needed:
            return self._keep_expressions(needed)
        for one in needed if len(needed) > 1 else ():
            fewer = [other for other in needed if other is not one]
            if fewer and one.shared and self._plan_all(fewer).placed:
                needed = fewer
        return needed

    def _keep_expressions(self, needed: list[Change]) -> list[Change]:
        """Return changes that drop only some expressions of the pod's node affinity, if they suffice in place of those
        that drop all of it."""
        others = [one for one in needed if one is not DROP_AFFINITY]
        for drops in drops_within_terms(self.pod):
            texts = {one.text for one in drops}
            if enough := self._smallest([*drops, *(one for one in others if one.text not in texts)]):
                return enough
        return needed

    def _plan(self, changes: Sequence[Change]) -> WhatIfOutcome:
        """Plan the pod alone, with the changes, after the plan."""
        snapshot = self._apply(changes, apply_plan(self.found, pending=self.pod.key))
        nodes = tuple(one if self._may_hold(one) else replace(one, allocatable=Resources()) for one in snapshot.nodes)
        pools = tuple(one for one in snapshot.pools if one.key == self.pool.key)
        return self._outcome(self._make(replace(snapshot, nodes=nodes, pools=pools), changes))

    def _plan_all(self, changes: Sequence[Change]) -> WhatIfOutcome:
        """Plan all pods anew, with the changes. The pod counts as placed only in this pool, and only if no other pod
        becomes pending for it."""
        made = self._make(self._apply(changes, self.found.manifests.snapshot), changes)
        outcome, others = self._outcome(made), {node.name for node in made.nodes if node.pool != self.pool.key}
        others.update(node.name for node in self.found.manifests.snapshot.nodes if not self._may_hold(node))
        elsewhere = any(self.pod.key in one.pods and one.node in others for one in made.existing)
        elsewhere |= any(self.pod.key in one.pods and one.name in others for one in made.nodes)
        more = {one.pod for one in made.pending} - {one.pod for one in self.found.plan.pending}
        return replace(outcome, placed=outcome.placed and not elsewhere and not more)

    def _apply(self, changes: Iterable[Change], snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the pod, without a node, and with the changes."""
        pod, pool, node_class = replace(self.pod, node_name=""), self.pool, snapshot.node_class(self.pool)
        for one in changes:
            if isinstance(one, ChangeOfPod):
                pod = one.apply(pod)
            elif isinstance(one, ChangeOfPool):
                pool = one.apply(pool)
            elif isinstance(one, ChangeOfOverlays):
                snapshot = replace(snapshot, overlays=one.apply(snapshot.overlays))
            elif isinstance(one, ChangeOfClass):
                node_class, pool = one.apply(node_class, pool)
        if node_class is not None:
            others = (one for one in snapshot.classes if one.ref != node_class.ref)
            snapshot = replace(snapshot, classes=(*others, node_class))
        pods = (*(one for one in snapshot.pods if one.key != pod.key), pod)
        pools = tuple(pool if one.key == pool.key else one for one in snapshot.pools)
        return replace(snapshot, pods=pods, pools=pools)

    def _make(self, snapshot: Snapshot, changes: Iterable[Change]) -> Plan:
        of_settings = (one for one in changes if isinstance(one, ChangeOfSettings))
        return self.planner.plan(
            snapshot,
            self.found.catalogue.catalogue,
            classes=self.found.classes,
            ceilings=reduce(lambda before, one: one.apply(before), of_settings, self.found.request.limits.ceilings),
            effort=what_if_effort(self.found),
        )

    def _outcome(self, made: Plan) -> WhatIfOutcome:
        there = next((node for node in made.nodes if self.pod.key in node.pods), None)
        if there:
            price = "" if self.assumes_spot else f", {format_dollars(there.price_per_hour)}/h"
            return WhatIfOutcome(True, f"{there.instance_type} in {there.zone}, {there.capacity_type}{price}")
        if any(self.pod.key in one.pods for one in made.existing):
            return WhatIfOutcome(True, "an existing node")
        return WhatIfOutcome(False, reason=next(iter(_reasons(self.pod, made)), None))

    def _may_hold(self, node: Node) -> bool:
        """Return whether the node belongs to this pool or to none. Nodes of other pools are full, because each pool
        has its own remedy; topology spreads still count them."""
        owner = node.labels.get(names.PROVISIONER if self.pool.legacy else names.NODEPOOL)
        other = names.NODEPOOL if self.pool.legacy else names.PROVISIONER
        return owner in (None, self.pool.name) and other not in node.labels

    def _describe(self, changes: Sequence[Change]) -> str:
        """Return who would have to change what, of one remedy."""
        by_owner: dict[str, list[Change]] = {}
        for one in changes:
            by_owner.setdefault(self._owner(one), []).append(one)
        opens = any(isinstance(one, ChangeOfPool) and one.opens for one in changes)
        where = (self._plan(changes).where or self._plan_all(changes).where) if opens else ""
        return ", and ".join(
            f"{owner} would have to {' and '.join(one.text for one in mine)}"
            f"{f' (then it gets {where})' if where and owner == self.pool.key else ''}"
            for owner, mine in by_owner.items()
        )

    def _owner(self, change: Change) -> str:
        match change:
            case ChangeOfPod():
                return "the pod"
            case ChangeOfPool():
                return self.pool.key
            case ChangeOfClass():
                return change.owner
            case ChangeOfSettings():
                return "the settings"
            case ChangeOfOverlays():
                return "a NodeOverlay"


def _reasons(pod: Pod, made: Plan) -> list[Reason]:
    return [reason for one in made.pending if one.pod == pod.key for reason in one.reasons]


def _is_pending(pod: Pod, made: Plan) -> bool:
    return any(one.pod == pod.key for one in made.pending)
