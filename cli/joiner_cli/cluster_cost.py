"""What the nodes of a cluster cost, by pool, and what its pods would cost on new nodes, for `joiner cost`.

Prices are those of plans: the whole price of each node at the prices of the catalogue. The comparison removes all nodes
that Joiner manages and plans their pods anew, beside the other nodes. Nothing is removed in a cluster for that reason:
what consolidation may do depends on budgets, PodDisruptionBudgets and protected pods, too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Node, Pod, Resources, sum_resources
from joiner.disruption.cluster_simulation import as_pending
from joiner.disruption.disruption_candidates import needs_another_node
from joiner.planning import Plan, Snapshot
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.planning.planner import Planner
from joiner.pools import InvalidManifest, NodeClaim, NodePool
from joiner.pools.additional_node_costs import sum_price_parts
from joiner_cli.manifest_plan import PlanInputs, PlanRequest, plan_snapshot, read_inputs

HOURS_A_MONTH: Final = 730
"""As in AWS's own estimates: 8,760 hours a year by twelve."""
SHARED: Final = ("cpu", "memory")
POOL_KINDS: Final = ("NodePool", "Provisioner")


def known_price(price_per_hour: float, unpriced: int) -> dict[str, float | None]:
    """Return the fields of a price in $/h and a month: null if so many nodes have no known price.

    >>> known_price(0.1, 0), known_price(0.1, 2)
    ({'pricePerHour': 0.1, 'pricePerMonth': 73.0}, {'pricePerHour': None, 'pricePerMonth': None})
    """
    if unpriced:
        return {"pricePerHour": None, "pricePerMonth": None}
    return {"pricePerHour": price_per_hour, "pricePerMonth": round(price_per_hour * HOURS_A_MONTH, 2)}


@dataclass(frozen=True, slots=True)
class PoolCost:
    """The nodes of one pool. ``parts`` are those of the price in $/h; ``requested`` is the share of the allocatable CPU
    and memory that pods request, daemon pods included; ``unpriced`` counts the nodes whose instance has no price in the
    catalogue, and which count nothing beside it."""

    pool: str
    nodes: int
    parts: Mapping[str, float]
    requested: Mapping[str, float]
    unpriced: int

    @property
    def price_per_hour(self) -> float:
        """Return the price of its nodes in $/h."""
        return round(sum(self.parts.values()), 10)

    @property
    def launches(self) -> bool:
        """Whether it is a pool, which would launch other nodes for its pods, and not a claim of a user."""
        return self.pool.partition("/")[0] in POOL_KINDS

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `-o json`."""
        kind, _, name = self.pool.partition("/")
        return {
            **({"nodePool": name, "nodePoolKind": kind} if self.pool else {}),
            "nodes": self.nodes,
            **known_price(self.price_per_hour, self.unpriced),
            "priceParts": dict(self.parts),
            "requested": dict(self.requested),
            "unpriced": self.unpriced,
        }


@dataclass(frozen=True, slots=True)
class ClusterCost:
    """``pools`` are by name; ``others`` are nodes that Joiner does not manage, and of which only the instance has a
    known price. ``compared`` are the pools without the ``booting`` instances, which have not joined yet and whose pods
    still wait. ``anew`` is a plan for the pods of the compared nodes; None if there are no such nodes."""

    inputs: PlanInputs
    pools: tuple[PoolCost, ...]
    others: PoolCost | None
    compared: tuple[PoolCost, ...]
    booting: int
    anew: Plan | None

    @property
    def errors(self) -> tuple[InvalidManifest, ...]:
        """Return the mistakes for which objects are left out."""
        return tuple(one for one in self.problems if one.severity == "error")

    @property
    def problems(self) -> tuple[InvalidManifest, ...]:
        """Return everything that is wrong or assumed."""
        return self.inputs.snapshot.problems if self.anew is None else self.anew.problems

    @property
    def nodes(self) -> int:
        """Return the number of managed nodes."""
        return sum(one.nodes for one in self.pools)

    @property
    def parts(self) -> dict[str, float]:
        """Return the parts of the price of all managed nodes in $/h."""
        return sum_price_parts(one.parts for one in self.pools)

    @property
    def price_per_hour(self) -> float:
        """Return the price of all managed nodes in $/h."""
        return round(sum(one.price_per_hour for one in self.pools), 10)

    @property
    def compared_price(self) -> float:
        """Return the price of the nodes that the plan replaces, in $/h."""
        return round(sum(one.price_per_hour for one in self.compared), 10)

    @property
    def unpriced(self) -> int:
        """Return the number of managed nodes whose price is unknown."""
        return sum(one.unpriced for one in self.pools)

    @property
    def lacks_buffers(self) -> bool:
        """Whether the room of capacity buffers, which the plan has, may be on instances that have not joined yet."""
        return self.booting > 0 and any(is_buffer_pod(pod.key) for pod in self.inputs.snapshot.pods)

    @property
    def is_comparable(self) -> bool:
        """Whether the price of the plan is one for the same pods: all prices are known and all pods have a place."""
        known = not any(one.unpriced for one in self.compared)
        return self.anew is not None and known and not (self.anew.pending or self.lacks_buffers)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `-o json`."""
        found: dict[str, Any] = {
            "nodes": self.nodes,
            **known_price(self.price_per_hour, self.unpriced),
            "priceParts": self.parts,
            "unpriced": self.unpriced,
            "notJoined": self.booting,
            "pools": [one.to_json() for one in self.pools],
            "otherNodes": self.others.to_json() if self.others else None,
            "packedAnew": None,
            "problems": [one.to_json() for one in self.problems],
        }
        if (anew := self.anew) is not None:
            found["packedAnew"] = {
                "nodes": len(anew.nodes),
                "pricePerHour": anew.price_per_hour,
                "priceParts": anew.price_parts,
                "lowerBoundPerHour": anew.lower_bound_per_hour,
                "optimal": anew.optimal,
                "cutShort": anew.cut_short,
                "pending": [one.pod for one in anew.pending],
                "replacedPricePerHour": self.compared_price,
                "comparable": self.is_comparable,
            }
        return found


@dataclass(frozen=True, slots=True)
class _RunningNode:
    """A node with its pods, or a claim whose node has not joined yet."""

    pool: str
    labels: Mapping[str, str]
    name: str
    node: Node | None
    pods: tuple[Pod, ...] = ()


def cost_of_manifests(request: PlanRequest) -> ClusterCost:
    """Read the files and return what their nodes cost. Raises ``UnreadableInput`` as ``plan_manifests`` does."""
    inputs = read_inputs(request)
    snapshot = inputs.snapshot
    prices = Planner().prices(snapshot, inputs.catalogue.catalogue, classes=inputs.classes)
    of_users = {claim.key: NodePool(claim.name, claim.class_ref) for claim in snapshot.claims if not claim.pool}
    prices = replace(prices, pools={**prices.pools, **of_users})
    by_pool: dict[str, list[_RunningNode]] = defaultdict(list)
    for one in _running_nodes(snapshot):
        by_pool[one.pool].append(one)
    found = {key: _cost(key, nodes, prices) for key, nodes in by_pool.items()}
    others = found.pop("", None)
    pools = tuple(found[key] for key in sorted(found))
    joined = {one.pool: [each for each in by_pool[one.pool] if each.node] for one in pools if one.launches}
    compared = tuple(_cost(key, nodes, prices) for key, nodes in joined.items() if nodes)
    booting = sum(one.node is None for nodes in by_pool.values() for one in nodes)
    return ClusterCost(inputs, pools, others, compared, booting, _plan_anew(inputs) if compared else None)


def _cost(pool: str, nodes: Sequence[_RunningNode], prices: NodePrices) -> PoolCost:
    parts = [prices.parts(one.labels, pool, one.name) for one in nodes]
    known = [each for each in parts if each["instance"]]
    return PoolCost(pool, len(nodes), sum_price_parts(known), _requested_share(nodes), len(nodes) - len(known))


def _running_nodes(snapshot: Snapshot) -> Iterable[_RunningNode]:
    """Yield all nodes, and claims whose instance is on its way. A claim that is not launched costs nothing."""
    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name and not pod.terminal:
            pods[pod.node_name].append(pod)
    joined = nodes_of_claims(snapshot)
    claim_of = {joined[claim.key].name: claim for claim in snapshot.claims if claim.key in joined}
    for node in snapshot.nodes:
        claim = claim_of.get(node.name)
        labels = {**claim.labels, **node.labels} if claim else node.labels
        yield _RunningNode(_owner(claim) if claim else "", labels, node.name, node, tuple(pods[node.name]))
    for claim in snapshot.claims:
        if claim.key not in joined and claim.provider_id:
            yield _RunningNode(_owner(claim), claim.labels, claim.name, None)


def _owner(claim: NodeClaim) -> str:
    """Return the key of the claim's pool, or of the claim itself if a user created it."""
    return claim.pool_key if claim.pool else claim.key


def _requested_share(nodes: Iterable[_RunningNode]) -> dict[str, float]:
    joined = [one for one in nodes if one.node is not None]
    there = sum_resources(one.node.allocatable for one in joined if one.node)
    used: Resources = sum_resources(pod.requests for one in joined for pod in one.pods)
    return {name: round(used.get(name, 0) / there[name], 4) for name in SHARED if there.get(name, 0)}


def _plan_anew(inputs: PlanInputs) -> Plan:
    """Return a plan for the pods of all nodes of pools, without these nodes. Pods that wait for a node are left out,
    and so are instances that have not joined yet and what a static pool lacks; capacity buffers have their room."""
    snapshot = inputs.snapshot
    joined = nodes_of_claims(snapshot)
    sizes = Counter(claim.pool_key for claim in snapshot.claims if claim.pool and claim.key in joined)
    gone = {joined[claim.key].name for claim in snapshot.claims if claim.pool and claim.key in joined}
    return plan_snapshot(
        inputs.request,
        replace(
            snapshot,
            nodes=tuple(node for node in snapshot.nodes if node.name not in gone),
            claims=tuple(claim for claim in snapshot.claims if not claim.pool and claim.provider_id),
            pools=tuple(_at_present_size(pool, sizes[pool.key]) for pool in snapshot.pools),
            pods=tuple(_anew(snapshot.pods, gone)),
            assignments={},
        ),
        inputs.catalogue,
        inputs.classes,
    )


def _at_present_size(pool: NodePool, nodes: int) -> NodePool:
    """Return a static pool with as many replicas as it has nodes; other pools as they are."""
    return pool if pool.replicas is None else replace(pool, replicas=min(pool.replicas, nodes))


def _anew(pods: Iterable[Pod], gone: set[str]) -> Iterable[Pod]:
    for pod in pods:
        if pod.node_name in gone:
            if needs_another_node(pod):
                yield as_pending(pod)
        elif pod.node_name or is_buffer_pod(pod.key):
            yield pod
