"""Candidates: the nodes that may be disrupted voluntarily, and for the others the reason why they stay.

Source: Karpenter, core `pkg/controllers/disruption/types.go`, `pkg/controllers/state/statenode.go`,
`pkg/utils/disruption/disruption.go`; "Disruption" in its documentation. A candidate is managed and initialized, not
nominated for pods, and not on its way out. An annotation on the node, the claim or a pod can forbid its disruption, and
so can a PodDisruptionBudget that allows no eviction. Pods of daemon sets and static pods never do; in Karpenter they do
(`docs/pool-annotations.md`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from joiner import names
from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Node, Pod
from joiner.cluster.eviction_costs import node_eviction_cost
from joiner.disruption.budgets_of_pods import BudgetsOfPods, DrainedNode
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.least_node_age import is_old_enough
from joiner.disruption.proposal import KeptNode
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import is_given_up, nodes_of_claims
from joiner.pools import InvalidManifest, NodeClaim, NodePool
from joiner.pools.disruption_protection import find_protected_node, find_protection, is_meaningless
from joiner.pools.timestamps import parse_timestamp

TEMPLATE_HASH: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node that may be disrupted.

    ``pods`` need another node when this one is removed. ``price`` is that of its offering in $/h; 0 if it is unknown.
    ``eviction_cost`` is Karpenter's RescheduleDisruptionCost: 1 plus the cost of each pod that is above 0. A node
    that is not ``old_enough`` is disrupted only while it is empty.
    """

    claim: NodeClaim
    node: Node
    pool: NodePool
    price: float
    pods: tuple[Pod, ...]
    eviction_cost: float
    old_enough: bool = True

    @property
    def is_empty(self) -> bool:
        """Return whether no pod needs another node. In Karpenter, pods that cost nothing to evict do not count either;
        here such a node is consolidated like others, so its pods get a place first."""
        return not self.pods

    @property
    def drained(self) -> DrainedNode:
        """Return what the drain of the node evicts."""
        return DrainedNode(self.pods, self.claim.termination_grace_period)


@dataclass(frozen=True, slots=True)
class CandidateSearch:
    """``candidates`` may be disrupted now, by name of the node. ``settling`` are names of nodes that receive no pods:
    not initialized, or within the pool's ``consolidateAfter``. ``disrupting`` counts by pool key the nodes that count
    against the budgets, and ``initialized`` those of which budgets are a share.
    """

    candidates: tuple[Candidate, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    settling: frozenset[str] = frozenset()
    disrupting: Mapping[str, int] = field(default_factory=dict)
    initialized: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[InvalidManifest, ...] = ()


def workload_of(pod: Pod) -> str:
    """Return the workload of a pod: ``namespace/kind/name`` of its controller, or of the pod itself.

    A ReplicaSet of a Deployment has the name of the Deployment and the hash of the pod template, which a rollout
    changes (https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label).

    >>> workload_of(Pod("shop", "web-0", owner_kind="ReplicaSet", owner_name="web-5f"))
    'shop/ReplicaSet/web-5f'
    >>> workload_of(Pod("shop", "a", labels={TEMPLATE_HASH: "5f"}, owner_kind="ReplicaSet", owner_name="web-5f"))
    'shop/Deployment/web'
    """
    template = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if pod.owner_kind == "ReplicaSet" and len(template) > 1 and pod.owner_name.endswith(template):
        return f"{pod.namespace}/Deployment/{pod.owner_name.removesuffix(template)}"
    return f"{pod.namespace}/{pod.owner_kind or 'Pod'}/{pod.owner_name or pod.name}"


def needs_another_node(pod: Pod) -> bool:
    """Return whether the pod must run elsewhere if its node is removed.

    A terminating pod does not, except one of a stateful set, whose successor needs the same volume.
    """
    if pod.terminal or pod.stays_with_node:
        return False
    return not pod.deletion or pod.owner_kind == "StatefulSet"


def find_candidates(
    snapshot: Snapshot, prices: NodePrices, *, now: datetime, history: DisruptionHistory
) -> CandidateSearch:
    """Return the nodes that may be disrupted, and for the other managed nodes the reason."""
    return _CandidateFinder(snapshot, prices, now, history).find()


def last_pod_event(claim: NodeClaim, pods: Iterable[Pod], events: Mapping[str, datetime]) -> datetime | None:
    """Return when a pod last came to the node of this claim or left it, as far as it is known; else when the node was
    initialized. `events` are by the key of the claim."""
    started = (parse_timestamp(pod.started) for pod in pods if not pod.stays_with_node)
    known = [claim.last_pod_event, events.get(claim.key), *started]
    return max((each for each in known if each is not None), default=claim.conditions["Initialized"].since)


def total_by_pool(snapshot: Snapshot, prices: NodePrices) -> tuple[dict[str, float], dict[str, float]]:
    """Return the price ($/h) and the eviction cost of all managed nodes that have joined, by the pool's key."""
    on_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name and needs_another_node(pod):
            on_node[pod.node_name].append(pod)
    nodes = nodes_of_claims(snapshot)
    price: dict[str, float] = defaultdict(float)
    cost: dict[str, float] = defaultdict(float)
    for claim in snapshot.claims:
        if claim.key in nodes and not claim.deleting:
            node = nodes[claim.key]
            price[claim.pool_key] += price_of(node, claim, prices)
            cost[claim.pool_key] += node_eviction_cost(on_node[node.name])
    return dict(price), dict(cost)


def price_of(node: Node, claim: NodeClaim, prices: NodePrices) -> float:
    """Return the whole price of the node in $/h; 0 if it is unknown."""
    return prices.of({**claim.labels, **node.labels}, claim.pool_key, node.name)


class _CandidateFinder:
    def __init__(self, snapshot: Snapshot, prices: NodePrices, now: datetime, history: DisruptionHistory) -> None:
        self._snapshot = snapshot
        self._prices = prices
        self._now = now
        self._history = history
        self._pods: dict[str, list[Pod]] = defaultdict(list)
        self._nominated: set[str] = set()
        # The order of a list must not decide which of several equal pods moves where, or which one is named
        for pod in sorted(snapshot.pods, key=lambda one: one.key):
            if pod.node_name:
                self._pods[pod.node_name].append(pod)
            elif pod.nominated_node:
                self._nominated.add(pod.nominated_node)
        self._budgets = BudgetsOfPods(snapshot.disruption_budgets, snapshot.rollouts)
        self._candidates: list[Candidate] = []
        self._kept: list[KeptNode] = []
        self._settling: set[str] = set()
        self._problems: list[InvalidManifest] = []

    def find(self) -> CandidateSearch:
        snapshot = self._snapshot
        pools = {pool.key: pool for pool in snapshot.pools}
        nodes = nodes_of_claims(snapshot)
        disrupting: dict[str, int] = defaultdict(int)
        initialized: dict[str, int] = defaultdict(int)
        for claim in sorted(snapshot.claims, key=lambda one: one.key):
            node = nodes.get(claim.key)
            if node is None:
                continue
            if not claim.initialized:
                self._settling.add(node.name)
            leaving = self._is_leaving(claim, node)
            if claim.initialized and not claim.conditions.true("InstanceTerminating"):
                initialized[claim.pool_key] += 1
                disrupting[claim.pool_key] += leaving or not node.ready
            if not leaving:
                self._judge(claim, node, pools.get(claim.pool_key))
        return CandidateSearch(
            tuple(self._candidates),
            tuple(self._kept),
            frozenset(self._settling),
            dict(disrupting),
            dict(initialized),
            tuple(self._problems),
        )

    def _is_leaving(self, claim: NodeClaim, node: Node) -> bool:
        return claim.deleting or node.retiring or is_given_up(claim) or claim.name in self._history.disrupting

    def _judge(self, claim: NodeClaim, node: Node, pool: NodePool | None) -> None:
        pods = self._pods.get(node.name, [])
        blocked = self._blocked(claim, node, pool, pods)
        if pool is None or not claim.initialized:
            self._keep(claim, node, "DisruptionBlocked", blocked)
            return
        settles_at = self._settles_at(claim, pool, pods)
        if settles_at is not None and settles_at > self._now:
            self._settling.add(node.name)
        if blocked:
            self._keep(claim, node, "DisruptionBlocked", blocked)
            return
        if settles_at is None:
            self._keep(claim, node, "Unconsolidatable", f"consolidation of {pool.key} is disabled")
            return
        moving = tuple(pod for pod in pods if needs_another_node(pod))
        if settles_at <= self._now:
            price, cost = price_of(node, claim, self._prices), node_eviction_cost(moving)
            old = is_old_enough(claim, pool, self._now)
            self._candidates.append(Candidate(claim, node, pool, price, moving, cost, old))

    def _settles_at(self, claim: NodeClaim, pool: NodePool, pods: Sequence[Pod]) -> datetime | None:
        """Return when the pool's consolidateAfter is over; None if the pool is not consolidated."""
        after, since = pool.disruption.consolidate_after, last_pod_event(claim, pods, self._history.pod_events)
        if after is None or pool.replicas is not None:
            return None
        return since + timedelta(seconds=after) if since is not None else self._now

    def _blocked(self, claim: NodeClaim, node: Node, pool: NodePool | None, pods: Sequence[Pod]) -> str:
        """Return what forbids the disruption of the node, or an empty text."""
        if pool is None:
            absent = f"it belongs to no pool: its claim has no label {claim.pool_label}"
            return f"its pool {claim.pool_key} does not exist, or is not valid" if claim.pool else absent
        if not claim.initialized:
            return "it is not initialized"
        if why := self._history.closed(claim):
            return why
        if node.name in self._nominated or claim.name in self._nominated:
            return "it is nominated for a pending pod"
        if why := find_protected_node(claim, node, (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE)):
            return why
        staying = (pod for pod in pods if not (pod.stays_with_node or pod.terminal or pod.deletion))
        deadline = claim.termination_grace_period is not None
        return next((why for pod in staying if (why := self._blocks(pod, has_deadline=deadline))), "")

    def _blocks(self, pod: Pod, *, has_deadline: bool) -> str:
        """Return why a pod blocks the disruption of its node, or an empty text."""
        if is_meaningless(pod.protection):
            remedy = 'write "true", or a duration from the start of the pod such as "1h30m"; it has no effect now'
            where = f"metadata.annotations[{names.DO_NOT_DISRUPT}]"
            self._problems.append(InvalidManifest(f"Pod/{pod.key}", where, pod.protection, remedy, "warning"))
        return find_protection(pod, self._now) or self._budgets.blocks(pod, has_deadline=has_deadline)

    def _keep(
        self,
        claim: NodeClaim,
        node: Node,
        condition: Literal["Unconsolidatable", "DisruptionBlocked"],
        message: str,
    ) -> None:
        self._kept.append(KeptNode(claim.name, node.name, condition, message))
