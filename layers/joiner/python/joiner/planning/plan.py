"""A plan: the nodes to make, which pods run where, what stays pending and why, what it costs and how cheap it could be.

It is a value. Claims are written from it, fleets are asked for it, tables and events are drawn from it, and it is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joiner.cluster import Requirements, Resources, Taint
from joiner.cluster.quantities import format_amount
from joiner.pools import InvalidManifest


@dataclass(frozen=True, slots=True, order=True)
class Offer:
    """One way to make a node: type, zone, capacity type, and its price in $/h."""

    price_per_hour: float
    instance_type: str
    zone: str
    capacity_type: str

    def to_json(self) -> dict[str, Any]:
        return {
            "instanceType": self.instance_type,
            "zone": self.zone,
            "capacityType": self.capacity_type,
            "pricePerHour": self.price_per_hour,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Offer":
        return cls(said["pricePerHour"], said["instanceType"], said["zone"], said["capacityType"])


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to make. ``name`` is only for this plan; ``pool`` is the pool's key (``NodePool/default``).

    ``alternatives`` are all offers that hold its pods for about the same price, its own first. ``requirements`` are
    what its claim says: the pool's, narrowed to the alternatives and to what its pods ask. ``labels`` are those of its
    own offer. ``requests`` are of its pods and ``daemon_overhead`` of what runs on every node; together they fit
    ``allocatable``. ``classes`` counts its pods by class, which is what slots are for.
    """

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

    @property
    def pool_kind(self) -> str:
        return self.pool.partition("/")[0]

    @property
    def pool_name(self) -> str:
        return self.pool.partition("/")[2]

    @property
    def instance_type(self) -> str:
        return self.offer.instance_type

    @property
    def zone(self) -> str:
        return self.offer.zone

    @property
    def capacity_type(self) -> str:
        return self.offer.capacity_type

    @property
    def price_per_hour(self) -> float:
        return self.offer.price_per_hour

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "nodePool": self.pool_name,
            "nodePoolKind": self.pool_kind,
            **self.offer.to_json(),
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
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "PlannedNode":
        return cls(
            name=said["name"],
            pool=f"{said['nodePoolKind']}/{said['nodePool']}",
            offer=Offer.from_json(said),
            alternatives=tuple(Offer.from_json(one) for one in said["alternatives"]),
            labels=said["labels"],
            taints=tuple(Taint.from_kube(one) for one in said["taints"]),
            startup_taints=tuple(Taint.from_kube(one) for one in said["startupTaints"]),
            requirements=Requirements.from_kube(said["requirements"]),
            requests=Resources.from_kube(said["requests"]),
            daemon_overhead=Resources.from_kube(said["daemonOverhead"]),
            capacity=Resources.from_kube(said["capacity"]),
            allocatable=Resources.from_kube(said["allocatable"]),
            pods=tuple(said["pods"]),
            classes=said["classes"],
        )


@dataclass(frozen=True, slots=True)
class ExistingNode:
    """Pods that fit capacity which is there (``node``) or on its way (``claim``, with ``node`` empty until it has
    joined).
    """

    node: str
    claim: str
    pods: tuple[str, ...]
    classes: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "claim": self.claim,
            "pods": list(self.pods),
            "classes": dict(sorted(self.classes.items())),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "ExistingNode":
        return cls(said["node"], said["claim"], tuple(said["pods"]), said["classes"])


LOOKS_AGAIN: Final = "; the next round looks again"
"""How a reason ends that is the plan's own, and no rule's."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one pool does not help a pod: the first rule that keeps it out. ``pool`` is empty where no pool is to blame.

    ``nearest`` is the offer that comes closest and ``lacks`` what it is short of.
    """

    pool: str
    reason: str
    nearest: Offer | None = None
    lacks: Resources = field(default_factory=Resources)

    def __str__(self) -> str:
        return f"{self.pool}: {self.reason}" if self.pool else self.reason

    @property
    def short_of(self) -> str:
        """What the nearest offer lacks, as people say it.

        >>> lacks = Resources.of(cpu=2, memory="1.5Gi")
        >>> Reason("default", "no instance type has enough resources", lacks=lacks).short_of
        '2 cpu and 1.5 GiB memory'
        """
        return " and ".join(format_amount(name, value) for name, value in self.lacks.items())

    @property
    def near(self) -> str:
        """The nearest offer, and what it lacks if that is known; empty where none is near.

        >>> Reason("", "too large", Offer(0.1, "m5.large", "us-east-1a", "spot"), Resources.of(cpu=2)).near
        'nearest: m5.large in us-east-1a, short of 2 cpu'
        """
        if self.nearest is None:
            return ""
        short = f", short of {self.short_of}" if self.lacks else ""
        return f"nearest: {self.nearest.instance_type} in {self.nearest.zone}{short}"

    @property
    def passing(self) -> bool:
        """Whether another plan over the same state may find a place: this one did not look everywhere."""
        return self.reason.endswith(LOOKS_AGAIN)

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"nodePool": self.pool, "reason": self.reason}
        if self.nearest:
            shown["nearest"] = {**self.nearest.to_json(), "lacks": self.lacks.to_kube()}
        return shown

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Reason":
        near = said.get("nearest")
        lacks = Resources.from_kube(near.get("lacks")) if near else Resources()
        return cls(said["nodePool"], said["reason"], Offer.from_json(near) if near else None, lacks)


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that no plan helps, and a reason for each pool."""

    pod: str
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        return {"pod": self.pod, "reasons": [one.to_json() for one in self.reasons]}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "PendingPod":
        return cls(said["pod"], tuple(Reason.from_json(one) for one in said["reasons"]))


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What no plan may exceed, over all pools of the cluster: nodes of ours, and their price. None = no ceiling."""

    nodes: int | None = None
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Price and bound are of the new nodes: no plan that places the same pods can be cheaper than
    ``lower_bound_per_hour``.

    ``greedy_price_per_hour`` is what first-fit, as Karpenter packs, would cost for the same pods; 0 where it was not
    tried, or pods stay pending. ``cut_short``: the clock ended the search, or kept the plan from being carried out in
    other orders, so a faster machine might find a better one. ``seconds`` is how long planning took, by the effort's
    clock.
    """

    nodes: tuple[PlannedNode, ...] = ()
    existing: tuple[ExistingNode, ...] = ()
    pending: tuple[PendingPod, ...] = ()
    lower_bound_per_hour: float = 0.0
    greedy_price_per_hour: float = 0.0
    cut_short: bool = False
    seconds: float = field(default=0.0, compare=False)
    problems: tuple[InvalidManifest, ...] = ()

    @property
    def price_per_hour(self) -> float:
        return round(sum(node.price_per_hour for node in self.nodes), 10)

    @property
    def gap(self) -> float:
        """How much dearer than the bound, as a share of it: 0.02 is two percent."""
        bound = self.lower_bound_per_hour
        return round(self.price_per_hour / bound - 1, 6) if bound > 0 else 0.0

    @property
    def pods_placed(self) -> int:
        return sum(len(node.pods) for node in self.nodes) + sum(len(one.pods) for one in self.existing)

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": [node.to_json() for node in self.nodes],
            "existing": [one.to_json() for one in self.existing],
            "pending": [one.to_json() for one in self.pending],
            "pricePerHour": self.price_per_hour,
            "lowerBoundPerHour": self.lower_bound_per_hour,
            "gap": self.gap,
            "greedyPricePerHour": self.greedy_price_per_hour,
            "cutShort": self.cut_short,
            "problems": [
                {
                    "object": one.object,
                    "field": one.field,
                    "value": one.value,
                    "message": one.remedy,
                    "severity": one.severity,
                }
                for one in self.problems
            ],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Plan":
        return cls(
            nodes=tuple(PlannedNode.from_json(one) for one in said["nodes"]),
            existing=tuple(ExistingNode.from_json(one) for one in said["existing"]),
            pending=tuple(PendingPod.from_json(one) for one in said["pending"]),
            lower_bound_per_hour=said["lowerBoundPerHour"],
            greedy_price_per_hour=said.get("greedyPricePerHour", 0.0),
            cut_short=said.get("cutShort", False),
            problems=tuple(
                InvalidManifest(
                    one["object"], one["field"], one.get("value", ""), one["message"], one.get("severity", "error")
                )
                for one in said["problems"]
            ),
        )
