"""Nodes that voluntary disruption replaces by new ones: drifted nodes, expired nodes of pools that replace these
gracefully, and nodes whose Spot Instance EC2 recommends to replace, in pools that follow such recommendations so.

Source: Karpenter, core `pkg/controllers/disruption/drift.go` and `types.go` (eventual disruption). An annotation
against disruption on the node or its claim always blocks. Pods block, by their annotation or their PodDisruptionBudget,
unless the claim has a terminationGracePeriod: then the drain overrides them in the end.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from joiner import names
from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Node, Pod
from joiner.cluster.eviction_costs import node_eviction_cost
from joiner.disruption.budgets_of_pods import BudgetsOfPods
from joiner.disruption.disruption_candidates import needs_another_node
from joiner.disruption.disruption_history import NO_HISTORY, DisruptionHistory
from joiner.disruption.drift import DRIFTED
from joiner.disruption.proposal import KeptNode
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import is_given_up, nodes_of_claims
from joiner.pools import NodeClaim, NodePool
from joiner.pools.disruption_protection import find_protected_node, find_protection, ignores_pods
from joiner.pools.expiration import replaced_at

ReplacementReason = Literal["Rebalance", "Drifted", "Expired"]

ORDER: Final[Sequence[ReplacementReason]] = ("Rebalance", "Drifted", "Expired")


@dataclass(frozen=True, slots=True, eq=False)
class OutdatedNode:
    """A node to replace. ``since`` is the time of its drift, or the time from which its age is due.

    ``pods`` need another node. ``price`` is in $/h, 0 if unknown. ``ignores_pods``: pods cannot block its drain for
    longer than its terminationGracePeriod.
    """

    claim: NodeClaim
    node: Node
    pool: NodePool
    reason: ReplacementReason
    why: str
    since: float
    pods: tuple[Pod, ...]
    price: float

    @property
    def ignores_pods(self) -> bool:
        """Return whether pods cannot forbid its replacement."""
        return ignores_pods(self.claim)

    @property
    def eviction_cost(self) -> float:
        """Return the cost of evicting its pods, by Karpenter's formula."""
        return node_eviction_cost(self.pods)

    @property
    def order(self) -> tuple[bool, bool, int, float, str]:
        """Sort key: instances at risk first, then nodes without pods, drift before age, the oldest first."""
        rank = ORDER.index(self.reason)
        return rank > 0, bool(self.pods), rank, self.since, self.claim.name


@dataclass(frozen=True, slots=True)
class OutdatedNodes:
    """``due`` may be replaced now, in this order; ``kept`` stay, with the reason."""

    due: tuple[OutdatedNode, ...]
    kept: tuple[KeptNode, ...]


def find_outdated_nodes(
    snapshot: Snapshot, prices: NodePrices, *, now: datetime, history: DisruptionHistory = NO_HISTORY
) -> OutdatedNodes:
    """Return the outdated nodes of pools that replace them."""
    pools, nodes = {pool.key: pool for pool in snapshot.pools}, nodes_of_claims(snapshot)
    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(snapshot.pods, key=lambda one: one.key):  # the first one that blocks is named
        pods[pod.node_name or pod.nominated_node].append(pod)
    blocks = _Blocks(BudgetsOfPods(snapshot.disruption_budgets, snapshot.rollouts), history, now)
    due, kept = [], []
    for claim in snapshot.claims:
        node, pool = nodes.get(claim.key), pools.get(claim.pool_key)
        if node is None or pool is None or not claim.initialized or is_given_up(claim):
            continue
        if claim.deleting or node.retiring or claim.name in history.disrupting:
            continue
        if not (cause := _cause(claim, pool, history.recommended, now)):
            continue
        reason, why, since = cause
        here = pods.get(node.name, [])
        if blocked := blocks.find(claim, node, here):
            kept.append(KeptNode(claim.name, node.name, "DisruptionBlocked", f"{why}, and {blocked}"))
            continue
        moving = tuple(pod for pod in here if pod.node_name and needs_another_node(pod))
        due.append(
            OutdatedNode(
                claim,
                node,
                pool,
                reason,
                why,
                since,
                moving,
                prices.of({**claim.labels, **node.labels}, claim.pool_key, node.name),
            )
        )
    return OutdatedNodes(tuple(sorted(due, key=lambda one: one.order)), tuple(kept))


def find_offerings_at_risk(snapshot: Snapshot, recommended: Collection[str]) -> frozenset[tuple[str, str, str]]:
    """Return the offerings (capacity type, instance type, zone) of the claims that are named in `recommended`."""
    labels = (claim.labels for claim in snapshot.claims if claim.name in recommended)
    return frozenset(
        (
            labels_of_claim.get(names.CAPACITY_TYPE, ""),
            labels_of_claim.get(names.INSTANCE_TYPE, ""),
            labels_of_claim.get(names.ZONE, ""),
        )
        for labels_of_claim in labels
    )


def _cause(
    claim: NodeClaim, pool: NodePool, recommended: Mapping[str, int], now: datetime
) -> tuple[ReplacementReason, str, float] | None:
    """Return why the node is replaced: reason, sentence, and since when in epoch seconds."""
    settings, condition = pool.disruption.settings, claim.conditions[DRIFTED]
    if claim.name in recommended and settings.rebalance == "replace":
        return "Rebalance", "EC2 recommends to replace its Spot Instance", float(recommended[claim.name])
    if condition.true and settings.drift.replace:
        return "Drifted", f"it is drifted ({condition.reason})", condition.since.timestamp() if condition.since else 0.0
    due = replaced_at(claim, pool) if settings.expiration.graceful else None
    if due is not None and due <= now:
        return "Expired", "it has reached the age limit of its pool (expireAfter)", due.timestamp()
    return None


@dataclass(frozen=True, slots=True)
class _Blocks:
    budgets: BudgetsOfPods
    history: DisruptionHistory
    now: datetime

    def find(self, claim: NodeClaim, node: Node, pods: Sequence[Pod]) -> str:
        """Return what forbids the replacement now, or an empty text."""
        if why := self.history.closed(claim):
            return why
        if why := find_protected_node(claim, node):
            return why
        if any(pod.nominated_node == node.name and not pod.node_name for pod in pods):
            return "it is nominated for a pending pod"
        if ignores_pods(claim):
            return ""
        staying = (pod for pod in pods if not (pod.stays_with_node or pod.terminal or pod.deletion))
        found = (find_protection(pod, self.now) or self.budgets.blocks(pod, has_deadline=False) for pod in staying)
        return next((why for why in found if why), "")
