"""What a sweep saw of the cluster, and what a check is."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from joiner.cluster import Node, Pod
from joiner.lifecycle.emptiness import find_disturbance, is_empty
from joiner.lifecycle.failed_claims import find_late_claims
from joiner.lifecycle.planning_back_off import Lists, PlanningBackOff
from joiner.lifecycle.progress import Progress, assess_progress
from joiner.lifecycle.watching import WATCHED_FOR
from joiner.pools import NodeClaim, NodePool

RetirementReason = Literal["deleted", "empty", "expired", "lost", "spot", "never-joined"]


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One look at the cluster and at the ledger, at `now`.

    `watches` gives, for each wave, when it was last seen to (epoch seconds) and its claims. `empty_since` is the memory
    of nodes that were empty before, and `asked_until` says until when a retirement that was asked for may still be
    waiting to begin; both by the claim's name, in epoch seconds. On `obscured` nodes runs something that could not be
    read. `interval` is the time to the next sweep, in seconds. `lists`, `unavailable` and `answers` tell what pending
    pods ask and what they were answered (`lifecycle.planning_back_off`).
    """

    now: datetime
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    pools: tuple[NodePool, ...] = ()
    launching: frozenset[str] = frozenset()
    watches: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    assignments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    empty_since: Mapping[str, int] = field(default_factory=dict)
    asked_until: Mapping[str, int] = field(default_factory=dict)
    obscured: frozenset[str] = frozenset()
    lease: int = 0
    interval: int = 60
    lists: Lists = field(default_factory=dict)
    unavailable: tuple[str, ...] = ()
    answers: Mapping[str, PlanningBackOff] = field(default_factory=dict)

    @property
    def at(self) -> int:
        """`now` in epoch seconds."""
        return int(self.now.timestamp())

    @property
    def progress(self) -> Progress:
        """Where the claims stand."""
        living = (self.now - WATCHED_FOR).timestamp()
        watched = {claim for seen_at, claims in self.watches.values() if seen_at >= living for claim in claims}
        late = find_late_claims(self.claims, self.nodes, self.now)
        return assess_progress(self.claims, launching=self.launching, watched=watched, lease=self.lease, late=late)

    def node_of(self) -> Mapping[str, Node]:
        """The node of each claim that has joined, by the claim's key."""
        by_instance = {node.provider_id: node for node in self.nodes if node.provider_id}
        return {claim.key: by_instance[claim.provider_id] for claim in self.claims if claim.provider_id in by_instance}

    def pods_of(self) -> Mapping[str, list[Pod]]:
        """The pods of each node, by its name, with those that the scheduler promised it."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            for name in {pod.node_name, pod.nominated_node} - {""}:
                found.setdefault(name, []).append(pod)
        return found

    def disturbance(self, claim: NodeClaim, node: Node, pods: Iterable[Pod]) -> str:
        """Why a retirement that is not urgent would not begin; empty if it would."""
        return find_disturbance(claim, node, pods, slots=sum(self.assignments.get(claim.name, {}).values()))

    def is_empty(self, node: Node, pods: Iterable[Pod]) -> bool:
        """Is it known that no pod of these holds the node?"""
        return node.name not in self.obscured and is_empty(node, pods)

    def pool_of(self) -> Mapping[str, NodePool]:
        """Pools by key."""
        return {pool.key: pool for pool in self.pools}


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """One thing to look for: the sweep answers the number of cases under `name`."""

    name: str
    look: Callable[[ClusterSurvey], list[str]]


@dataclass(frozen=True, slots=True)
class DueRetirement:
    """A claim that has to go: why, in the contract's word and in a sentence, and not before when (epoch seconds; 0 =
    now).
    """

    claim: NodeClaim
    reason: RetirementReason
    said: str
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class RetirementCheck:
    """One reason for which claims go."""

    name: str
    look: Callable[[ClusterSurvey], list[DueRetirement]]
