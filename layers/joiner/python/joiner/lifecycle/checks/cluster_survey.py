"""The survey of the cluster, and the types of its checks."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any

from joiner.cluster import Node, Pod
from joiner.lifecycle.buffer_planning import BufferedClaims
from joiner.lifecycle.claim_progress import Progress, assess_progress
from joiner.lifecycle.emptiness import find_disturbance, is_empty
from joiner.lifecycle.failed_claims import find_late_claims
from joiner.lifecycle.failed_writes import FailedWrites
from joiner.lifecycle.node_deadlines import WATCHED_FOR
from joiner.lifecycle.planning_back_off import Lists, PlanningBackOff
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import COMPUTE_TYPE
from joiner.pools import InvalidManifest, NodeClaim, NodeClass, NodePool
from joiner.pools.pool_holds import PoolHold


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """The state of the cluster and of the ledger at `now`.

    `watches` gives, for each wave, the time of its last check (epoch seconds) and its claims. `empty_since` gives the
    start of the emptiness of nodes, and `requested_until` the time until which a requested retirement may still begin;
    both by claim name, in epoch seconds. `recommended` gives the time of EC2's rebalance recommendation, by claim name.
    `buffered` names the claims whose nodes have capacity for CapacityBuffers by the last plan; None if no buffer has
    a virtual pod.
    `failed_writes` gives, by claim name, the failed writes of an outcome and the failed deletions.
    `obscured` nodes run pods that could not be read. `disrupting` names the claims of disruptions under way, and
    `replacing` those that replace them and may still wait for others. `interval`
    is the time to the next sweep, in seconds. `closed_pools` gives the reason of each pool that cannot launch a node,
    by its key. `lists`, `unavailable`, `holds` (those in effect) and `answers` are the input for the back-off of
    pending pods (`lifecycle.planning_back_off`).
    """

    _: KW_ONLY
    now: datetime
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    pools: tuple[NodePool, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    problems: tuple[InvalidManifest, ...] = ()
    launching: frozenset[str] = frozenset()
    watches: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    assignments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    failed_writes: Mapping[str, FailedWrites] = field(default_factory=dict)
    empty_since: Mapping[str, int] = field(default_factory=dict)
    requested_until: Mapping[str, int] = field(default_factory=dict)
    recommended: Mapping[str, int] = field(default_factory=dict)
    buffered: BufferedClaims | None = None
    obscured: frozenset[str] = frozenset()
    disrupting: frozenset[str] = frozenset()
    replacing: frozenset[str] = frozenset()
    lease: int = 0
    planning: bool = False
    """Whether an execution holds the lease."""
    interval: int = 60
    lists: Lists = field(default_factory=dict)
    unavailable: tuple[str, ...] = ()
    holds: tuple[PoolHold, ...] = ()
    answers: Mapping[str, PlanningBackOff] = field(default_factory=dict)
    closed_pools: Mapping[str, str] = field(default_factory=dict)

    @property
    def at(self) -> int:
        """Return `now` in epoch seconds."""
        return int(self.now.timestamp())

    @property
    def unwritten(self) -> int:
        """Return the number of claims that could not be written or deleted, and are still there."""
        return sum(claim.name in self.failed_writes and not claim.initialized for claim in self.claims)

    @property
    def progress(self) -> Progress:
        """Return the progress of the claims."""
        living = (self.now - WATCHED_FOR).timestamp()
        watched = {claim for seen_at, claims in self.watches.values() if seen_at >= living for claim in claims}
        late = find_late_claims(self.claims, self.nodes, self.now)
        return assess_progress(self.claims, launching=self.launching, watched=watched, lease=self.lease, late=late)

    def node_of(self) -> Mapping[str, Node]:
        """Return the node of each registered claim, by the claim's key."""
        by_instance = {node.provider_id: node for node in self.nodes if node.provider_id}
        return {claim.key: by_instance[claim.provider_id] for claim in self.claims if claim.provider_id in by_instance}

    def unmanaged_nodes(self) -> list[Node]:
        """Return the nodes without a claim, except those of Fargate, which take one pod each."""
        managed = {claim.provider_id for claim in self.claims if claim.provider_id}
        return [node for node in self.nodes if node.provider_id not in managed and not node.has_taint(COMPUTE_TYPE)]

    def pods_of(self) -> Mapping[str, list[Pod]]:
        """Return the pods of each node by its name, including pods that the scheduler nominated for it."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            for name in {pod.node_name, pod.nominated_node} - {""}:
                found.setdefault(name, []).append(pod)
        return found

    def disturbance(self, claim: NodeClaim, node: Node, pods: Iterable[Pod]) -> str:
        """Return why a retirement that is not urgent would not begin; empty if it would."""
        slots = sum(self.assignments.get(claim.name, {}).values())
        return find_disturbance(claim, node, pods, slots=slots, now=self.now)

    def is_empty(self, node: Node, pods: Iterable[Pod]) -> bool:
        """Return whether certainly no pod of `pods` holds the node."""
        return node.name not in self.obscured and is_empty(node, pods)

    def pool_of(self) -> Mapping[str, NodePool]:
        """Return the pools by key."""
        return {pool.key: pool for pool in self.pools}


def find_obscured_nodes(manifests: Sequence[Mapping[str, Any]], read: Collection[Pod]) -> frozenset[str]:
    """Return the names of nodes that run a pod that cannot be read: such a node may not count as empty.

    `manifests` are all pods, `read` those that could be read.
    """
    if len(read) == len(manifests):
        return frozenset()
    known = {(pod.namespace, pod.name) for pod in read}
    raw = ((each["metadata"], each.get("spec") or {}) for each in manifests)
    return frozenset(
        str(spec["nodeName"])
        for meta, spec in raw
        if spec.get("nodeName") and (meta.get("namespace"), meta["name"]) not in known
    )


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """One check of the cluster: the sweep returns the number of cases under `name`."""

    name: str
    find: Callable[[ClusterSurvey], list[str]]


@dataclass(frozen=True, slots=True)
class DueRetirement:
    """A claim to retire: the reason as a keyword and as a sentence, and the earliest time (epoch seconds; 0 = now)."""

    claim: NodeClaim
    reason: RetirementReason
    message: str
    not_before: int = 0

    @property
    def request(self) -> RetirementRequest:
        """Return the request for the retirement."""
        return RetirementRequest(self.claim.name, self.reason, self.claim.instance_id, self.not_before)


@dataclass(frozen=True, slots=True)
class RetirementCheck:
    """One check for claims to retire."""

    name: str
    find: Callable[[ClusterSurvey], list[DueRetirement]]
