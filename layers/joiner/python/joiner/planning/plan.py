"""A plan: the nodes to launch, the node of each pod, the pods that stay pending and the reasons, the price, and its
lower bound.

A plan is a value. Claims, fleet requests, tables and events are all made from it, and it is stored.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from joiner.cluster import Requirements, Resources, Taint
from joiner.cluster.quantities import format_shortage
from joiner.planning.plan_simplification import UNCHANGED, Simplification
from joiner.planning.unlaunched_nodes import UnlaunchedNodes
from joiner.pools import InvalidManifest
from joiner.pools.additional_node_costs import NO_COSTS, NodeCosts, sum_price_parts
from joiner.pools.capacity_reservations import PRICE_SHARE


@dataclass(frozen=True, slots=True, order=True)
class Offer:
    """One offer for a node: instance type, zone, capacity type, and price in $/h. ``overlaid`` is whether a NodeOverlay
    changed the price. ``committed`` is what commitments of the account pay for it beside the price, in $/h."""

    price_per_hour: float
    instance_type: str
    zone: str
    capacity_type: str
    overlaid: bool = False
    committed: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "instanceType": self.instance_type,
            "zone": self.zone,
            "capacityType": self.capacity_type,
            "pricePerHour": self.price_per_hour,
            **({"overlaid": True} if self.overlaid else {}),
            **({"committedPerHour": self.committed} if self.committed else {}),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Offer":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            fields["pricePerHour"],
            fields["instanceType"],
            fields["zone"],
            fields["capacityType"],
            fields.get("overlaid", False),
            fields.get("committedPerHour", 0.0),
        )


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to launch. ``name`` is unique only in this plan; ``pool`` is the pool's key (``NodePool/default``).

    ``alternatives`` are all offers that hold its pods for about the same price, its own first. ``requirements`` are
    the requirements of its claim: those of the pool, narrowed to the alternatives and to what its pods require.
    ``labels`` are those of its own offer. ``requests`` are the requests of its pods, and ``daemon_overhead`` those
    of the daemon pods; together they fit ``allocatable``. ``classes`` counts its pods by class; slots are created
    for these classes. The price of an offer is that of the whole node: ``costs`` are its parts beside the instance.
    ``min_values_relaxed``: the alternatives have fewer values than minValues of its pool (BestEffort).
    """

    _: KW_ONLY
    name: str
    pool: str
    offer: Offer
    alternatives: tuple[Offer, ...]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    requirements: Requirements
    requests: Resources
    daemon_overhead: Resources
    capacity: Resources
    allocatable: Resources
    pods: tuple[str, ...]
    classes: Mapping[str, int]
    costs: NodeCosts = NO_COSTS
    min_values_relaxed: bool = False

    @property
    def pool_kind(self) -> str:
        """Return ``NodePool`` or ``Provisioner``; the kind of the claim for a standalone claim."""
        return self.pool.partition("/")[0]

    @property
    def pool_name(self) -> str:
        """Return the name of its pool."""
        return self.pool.partition("/")[2]

    @property
    def instance_type(self) -> str:
        """Return its instance type."""
        return self.offer.instance_type

    @property
    def zone(self) -> str:
        """Return its zone."""
        return self.offer.zone

    @property
    def capacity_type(self) -> str:
        """Return its capacity type."""
        return self.offer.capacity_type

    @property
    def price_per_hour(self) -> float:
        """Return its whole price in $/h."""
        return self.offer.price_per_hour

    @property
    def price_parts(self) -> dict[str, float]:
        """Return the parts of the price in $/h: instance, volumes, address, running; interruptions if there are any."""
        return {"instance": round(self.price_per_hour - self.costs.total, 10), **self.costs.to_json()}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "name": self.name,
            "nodePool": self.pool_name,
            "nodePoolKind": self.pool_kind,
            **self.offer.to_json(),
            "priceParts": self.price_parts,
            "alternatives": [one.to_json() for one in self.alternatives],
            "labels": dict(sorted(self.labels.items())),
            "taints": [taint.to_kube() for taint in self.taints],
            "startupTaints": [taint.to_kube() for taint in self.startup_taints],
            "requirements": self.requirements.to_kube(),
            "requests": self.requests.to_kube(),
            "daemonOverhead": self.daemon_overhead.to_kube(),
            "capacity": self.capacity.to_kube(),
            "allocatable": self.allocatable.to_kube(),
            "pods": list(self.pods),
            "classes": dict(sorted(self.classes.items())),
            **({"minValuesRelaxed": True} if self.min_values_relaxed else {}),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "PlannedNode":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            name=fields["name"],
            pool=f"{fields['nodePoolKind']}/{fields['nodePool']}",
            offer=Offer.from_json(fields),
            alternatives=tuple(Offer.from_json(one) for one in fields["alternatives"]),
            labels=fields["labels"],
            taints=tuple(Taint.from_kube(one) for one in fields["taints"]),
            startup_taints=tuple(Taint.from_kube(one) for one in fields["startupTaints"]),
            requirements=Requirements.from_kube(fields["requirements"]),
            requests=Resources.from_kube(fields["requests"]),
            daemon_overhead=Resources.from_kube(fields["daemonOverhead"]),
            capacity=Resources.from_kube(fields["capacity"]),
            allocatable=Resources.from_kube(fields["allocatable"]),
            pods=tuple(fields["pods"]),
            classes=fields["classes"],
            costs=NodeCosts.from_json(fields.get("priceParts") or {}),
            min_values_relaxed=bool(fields.get("minValuesRelaxed")),
        )


@dataclass(frozen=True, slots=True)
class ExistingNode:
    """Pods that fit existing capacity (``node``) or in-flight capacity (``claim``, with ``node`` empty until the node
    has joined)."""

    node: str
    claim: str
    pods: tuple[str, ...]
    classes: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "node": self.node,
            "claim": self.claim,
            "pods": list(self.pods),
            "classes": dict(sorted(self.classes.items())),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ExistingNode":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(fields["node"], fields["claim"], tuple(fields["pods"]), fields["classes"])


UNTOLERATED = "did not tolerate taint "
INCOMPATIBLE = "incompatible requirements: "
OVER_LIMIT: Final = "all available instance types exceed limits for nodepool"
TEMPORARY: Final = "; the next plan tries again"
"""The end of a reason that comes from this plan and not from a rule."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why one pool cannot hold a pod: the first rule that excludes it. ``pool`` is empty if the reason
    concerns no pool.

    ``nearest`` is the closest offer, and ``lacks`` is what it lacks.
    """

    pool: str
    reason: str
    nearest: Offer | None = None
    lacks: Resources = field(default_factory=Resources)

    def __str__(self) -> str:
        return f"{self.pool}: {self.reason}" if self.pool else self.reason

    @property
    def short_of(self) -> str:
        """Return what the nearest offer lacks, as text, rounded up.

        >>> lacks = Resources.of(cpu=2, memory="1.5Gi")
        >>> Reason("default", "no instance type has enough resources", lacks=lacks).short_of
        '2 cpu and 1.5 GiB memory'
        """
        return " and ".join(format_shortage(name, value) for name, value in self.lacks.items())

    @property
    def near(self) -> str:
        """Return the nearest offer, and what it lacks if that is known; empty if there is no nearest offer.

        >>> Reason("", "too large", Offer(0.1, "m5.large", "us-east-1a", "spot"), Resources.of(cpu=2)).near
        'nearest: m5.large in us-east-1a, short of 2 cpu'
        """
        if self.nearest is None:
            return ""
        short = f", short of {self.short_of}" if self.lacks else ""
        return f"nearest: {self.nearest.instance_type} in {self.nearest.zone}{short}"

    @property
    def over_limit(self) -> bool:
        """Return whether a limit of the pool or a ceiling of the cluster excludes every node that could hold the pod.

        >>> Reason("default", f"{OVER_LIMIT}: limit cpu 8 of NodePool/default").over_limit
        True
        """
        return self.reason.startswith(OVER_LIMIT)

    @property
    def chosen_by_pod(self) -> bool:
        """Return whether the pod itself excludes the pool, by its tolerations or by what it requires of labels."""
        return self.reason.startswith((UNTOLERATED, INCOMPATIBLE))

    @property
    def passing(self) -> bool:
        """Return whether another plan of the same state may place the pod, because this plan did not try everything."""
        return self.reason.endswith(TEMPORARY)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        shown: dict[str, Any] = {"nodePool": self.pool, "reason": self.reason}
        if self.nearest:
            shown["nearest"] = {**self.nearest.to_json(), "lacks": self.lacks.to_kube()}
        return shown

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Reason":
        """Read the JSON form of the value, as `to_json` returns it."""
        near = fields.get("nearest")
        lacks = Resources.from_kube(near.get("lacks")) if near else Resources()
        return cls(fields["nodePool"], fields["reason"], Offer.from_json(near) if near else None, lacks)


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that the plan cannot place, and a reason for each pool."""

    pod: str
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {"pod": self.pod, "reasons": [one.to_json() for one in self.reasons]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "PendingPod":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(fields["pod"], tuple(Reason.from_json(one) for one in fields["reasons"]))


OPTIMAL_GAP: Final = 1e-6
"""A gap up to this is within the numerical error of the bound: the plan is optimal."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of planning. Price and bound concern the new nodes: no plan that places the same pods can be cheaper
    than ``lower_bound_per_hour``.

    ``greedy_price_per_hour`` is the price of the same pods with first-fit, as Karpenter packs; None if first-fit was
    not tried, breaks a rule, a limit or a capacity mix, or pods stay pending. The plan is never more expensive, apart
    from what ``simplified`` costs. ``cut_short`` is true if the deadline stopped the search or prevented further
    orders of realization; a faster machine may then find a better plan. ``seconds`` is the duration of planning, by
    the effort's clock. ``warnings`` are what an operator would object to.
    """

    nodes: tuple[PlannedNode, ...] = ()
    existing: tuple[ExistingNode, ...] = ()
    pending: tuple[PendingPod, ...] = ()
    _: KW_ONLY
    unlaunched: tuple[UnlaunchedNodes, ...] = ()
    lower_bound_per_hour: float = 0.0
    greedy_price_per_hour: float | None = None
    simplified: Simplification = UNCHANGED
    cut_short: bool = False
    seconds: float = field(default=0.0, compare=False)
    problems: tuple[InvalidManifest, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def price_per_hour(self) -> float:
        """Return the price of all new nodes in $/h."""
        return round(sum(node.price_per_hour for node in self.nodes), 10)

    @property
    def committed_per_hour(self) -> float:
        """Return what commitments of the account pay for the new nodes beside the price, in $/h."""
        return round(sum(node.offer.committed for node in self.nodes), 10)

    @property
    def price_parts(self) -> dict[str, float]:
        """Return the parts of the price in $/h, summed over the nodes."""
        return sum_price_parts(node.price_parts for node in self.nodes)

    @property
    def gap(self) -> float:
        """Return how much the price exceeds the bound, as a share of the bound: 0.02 is two percent. It is 0 if the
        bound is 0; ``optimal`` then says whether the price can be lower."""
        bound = self.lower_bound_per_hour
        return round(self.price_per_hour / bound - 1, 6) if bound > 0 else 0.0

    @property
    def optimal(self) -> bool:
        """Return whether it is proven that no plan which places the same pods is cheaper. Otherwise this plan may still
        be the cheapest."""
        unpaid = self.price_per_hour - self.committed_per_hour * PRICE_SHARE / (1 - PRICE_SHARE)
        return unpaid <= self.lower_bound_per_hour * (1 + OPTIMAL_GAP) + 1e-10

    @property
    def pods_placed(self) -> int:
        """Return the number of pods on new and on existing nodes."""
        return sum(len(node.pods) for node in self.nodes) + sum(len(one.pods) for one in self.existing)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "nodes": [node.to_json() for node in self.nodes],
            "existing": [one.to_json() for one in self.existing],
            "pending": [one.to_json() for one in self.pending],
            **({"unlaunched": [one.to_json() for one in self.unlaunched]} if self.unlaunched else {}),
            "pricePerHour": self.price_per_hour,
            **({"committedPerHour": self.committed_per_hour} if self.committed_per_hour else {}),
            "priceParts": self.price_parts,
            "lowerBoundPerHour": self.lower_bound_per_hour,
            "gap": self.gap,
            "optimal": self.optimal,
            **({} if self.greedy_price_per_hour is None else {"greedyPricePerHour": self.greedy_price_per_hour}),
            "simplified": self.simplified.to_json(),
            "warnings": list(self.warnings),
            "cutShort": self.cut_short,
            "problems": [one.to_json() for one in self.problems],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Plan":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            nodes=tuple(PlannedNode.from_json(one) for one in fields["nodes"]),
            existing=tuple(ExistingNode.from_json(one) for one in fields["existing"]),
            pending=tuple(PendingPod.from_json(one) for one in fields["pending"]),
            unlaunched=tuple(UnlaunchedNodes.from_json(one) for one in fields.get("unlaunched") or ()),
            lower_bound_per_hour=fields["lowerBoundPerHour"],
            greedy_price_per_hour=fields.get("greedyPricePerHour"),
            simplified=Simplification.from_json(fields["simplified"]) if fields.get("simplified") else UNCHANGED,
            cut_short=fields.get("cutShort", False),
            warnings=tuple(fields.get("warnings") or ()),
            problems=tuple(
                InvalidManifest(
                    one["object"], one["field"], one.get("value", ""), one["message"], one.get("severity", "error")
                )
                for one in fields["problems"]
            ),
        )
