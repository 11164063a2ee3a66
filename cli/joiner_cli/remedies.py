"""What would have to change so that a pending pod gets a node of a pool: only what a plan with the change confirms.

For the pod and for the pool, all changes together are planned first. If the pod is placed then, each change that the
plan does not need is left out. If neither side suffices, both are changed together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.assumed_spot_offerings import assume_spot_offerings, lacks_spot_prices
from joiner.cluster import Node, Pod, Requirements, Resources
from joiner.planning import Reason
from joiner.planning.planner import Planner
from joiner.pools import NodePool
from joiner_cli.manifest_changes import (
    ChangeOfClass,
    ChangeOfPod,
    ChangeOfPool,
    changes_of_pod,
    changes_of_pool,
    changes_of_settings,
)
from joiner_cli.manifest_plan import ManifestPlan
from joiner_cli.missing_spot_prices import SPOT_POOLS, requires_spot
from joiner_cli.rendering.text_columns import format_dollars
from joiner_cli.what_if_plans import apply_plan, what_if_effort

NOT_FOUND: Final = "no change of the pod and of this pool alone was found that places it"
ALONE: Final = "nothing; a plan without the other pending pods places it"
WITH_PRICES: Final = "nothing; a plan with spot prices places it"
ASSUMED: Final = "this assumes Spot Instances, for which the catalogue has no prices"
MOST_ALTERNATIVES: Final = 3  # alternatives of a node affinity for which a pool is changed

Change = ChangeOfPod | ChangeOfPool | ChangeOfClass


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
    catalogue: Catalogue
    planner: Planner = field(default_factory=Planner)

    @classmethod
    def of(cls, pod: Pod, pool: NodePool, reason: Reason, found: ManifestPlan) -> "RemedySearch":
        """Start a search. Without spot prices, it assumes Spot Instances for a pod or a pool that requires them."""
        catalogue = found.catalogue.catalogue
        spot_only = found.manifests.snapshot.closed_pools.get(pool.key) in SPOT_POOLS
        assumed = (requires_spot(pod) or spot_only) and lacks_spot_prices(catalogue)
        return cls(pod, pool, reason, found, assume_spot_offerings(catalogue) if assumed else catalogue)

    @property
    def assumes_spot(self) -> bool:
        """Return whether its plans have Spot Instances that the catalogue has no prices for."""
        return self.catalogue is not self.found.catalogue.catalogue

    def describe(self) -> str:
        """Return the changes that place the pod, as a sentence without its end."""
        if self._plan(()).placed:
            return WITH_PRICES if self.assumes_spot else ALONE
        changes = self._describe_changes()
        return changes if changes == NOT_FOUND or not self.assumes_spot else f"{changes}; {ASSUMED}"

    def _describe_changes(self) -> str:
        of_pod = self._changes_of_pod()
        on_pod, on_pool = self._smallest(of_pod), self._change_pool(())
        node_class = self.found.manifests.snapshot.node_class(self.pool)
        on_class = self._smallest(changes_of_settings(node_class, self.pool, self.reason, self.catalogue))
        if not on_pod and not on_pool and not on_class:
            both = self._change_pool(of_pod)
            pool_part = [one for one in both if isinstance(one, ChangeOfPool)]
            pod_part = [one for one in both if isinstance(one, ChangeOfPod)]
            return ", and ".join(filter(None, (self._of_pod(pod_part), self._of_pool(both, pool_part)))) or NOT_FOUND
        parts = (self._of_pod(on_pod), self._of_pool(on_pool, on_pool), _of_class(on_class))
        return ", or ".join(filter(None, parts))

    def _changes_of_pod(self) -> list[ChangeOfPod]:
        """Return the changes of the pod. If it is also too large, which only a plan without its other rules shows, it
        also requests less.
        """
        changes = changes_of_pod(self.pod, self.pool, self.reason)
        after = self._plan(changes)
        if after.placed or after.reason is None or self.reason.lacks:
            return changes
        return changes_of_pod(self.pod, self.pool, replace(self.reason, lacks=after.reason.lacks))

    def _change_pool(self, of_pod: Sequence[ChangeOfPod]) -> list[Change]:
        """Return the smallest changes for the first alternative of the requirements that the pool can meet. With
        changes of the pod, the requirements are those that it has after them.
        """
        pod = reduce(lambda before, one: one.apply(before), of_pod, self.pod)
        for wanted in (pod.constraints.on_new_nodes() or (Requirements(),))[:MOST_ALTERNATIVES]:
            if enough := self._smallest([*of_pod, *changes_of_pool(pod, self.pool, wanted)]):
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
        return needed

    def _plan(self, changes: Iterable[Change]) -> WhatIfOutcome:
        pod, pool, snapshot = replace(self.pod, node_name=""), self.pool, apply_plan(self.found)
        node_class = snapshot.node_class(pool)
        for one in changes:
            if isinstance(one, ChangeOfPod):
                pod = one.apply(pod)
            elif isinstance(one, ChangeOfPool):
                pool = one.apply(pool)
            else:
                node_class, pool = one.apply(node_class, pool)
        if node_class is not None:
            others = (one for one in snapshot.classes if one.ref != node_class.ref)
            snapshot = replace(snapshot, classes=(*others, node_class))
        nodes = tuple(one if self._may_hold(one) else replace(one, allocatable=Resources()) for one in snapshot.nodes)
        closed = {key: reason for key, reason in snapshot.closed_pools.items() if reason not in SPOT_POOLS}
        made = self.planner.plan(
            replace(snapshot, nodes=nodes, pods=(*snapshot.pods, pod), pools=(pool,), closed_pools=closed),
            self.catalogue,
            classes=self.found.classes,
            ceilings=self.found.request.limits.ceilings,
            effort=what_if_effort(self.found),
        )
        there = next((node for node in made.nodes if pod.key in node.pods), None)
        if there:
            price = "" if self.assumes_spot else f", {format_dollars(there.price_per_hour)}/h"
            return WhatIfOutcome(True, f"{there.instance_type} in {there.zone}, {there.capacity_type}{price}")
        if any(pod.key in one.pods for one in made.existing):
            return WhatIfOutcome(True, "an existing node")
        reasons = chain.from_iterable(one.reasons for one in made.pending if one.pod == pod.key)
        return WhatIfOutcome(False, reason=next(reasons, None))

    def _may_hold(self, node: Node) -> bool:
        """Return whether the node belongs to this pool or to none. Nodes of other pools are full, because each pool
        has its own remedy; topology spreads still count them."""
        owner = node.labels.get(names.PROVISIONER if self.pool.legacy else names.NODEPOOL)
        other = names.NODEPOOL if self.pool.legacy else names.PROVISIONER
        return owner in (None, self.pool.name) and other not in node.labels

    def _of_pod(self, changes: Sequence[Change]) -> str:
        return f"the pod would have to {_join(changes)}" if changes else ""

    def _of_pool(self, all_changes: Sequence[Change], changes: Sequence[Change]) -> str:
        if not changes:
            return ""
        opens = any(isinstance(one, ChangeOfPool) and one.opens for one in changes)
        example = f" (then it gets {self._plan(all_changes).where})" if opens else ""
        return f"{self.pool.key} would have to {_join(changes)}{example}"


def _of_class(changes: Sequence[Change]) -> str:
    by_owner: dict[str, list[Change]] = {}
    for one in changes:
        if isinstance(one, ChangeOfClass):
            by_owner.setdefault(one.owner, []).append(one)
    return " and ".join(f"{owner} would have to {_join(mine)}" for owner, mine in by_owner.items())


def _join(changes: Sequence[Change]) -> str:
    return " and ".join(one.text for one in changes)
