"""The limit that one more node would exceed, as a value: how much of it is used, how much is needed, and how to raise
it."""

from dataclasses import dataclass
from typing import Literal

from joiner.cluster import Resources
from joiner.planning.plan import TEMPORARY
from joiner.pools import NodePool


@dataclass(frozen=True, slots=True)
class PoolLimitViolation:
    """A pool limit, in one resource or in nodes. ``used`` counts existing, in-flight and planned nodes; the node would
    add ``more``."""

    pool: NodePool
    resource: str
    limit: int
    used: int
    more: int

    @property
    def excess(self) -> float:
        """Return the total with this node as a multiple of the limit."""
        return (self.used + self.more) / self.limit if self.limit > 0 else float("inf")

    def text(self, wanted: Resources, planned: int) -> str:
        """Describe the violation for a pod that requests ``wanted``. ``planned`` is the part of ``used`` that new
        nodes of this plan use."""
        of_plan = f" ({self._amount(planned)} of it by this plan)" if planned else ""
        if self.resource == "nodes":
            asked = "one more is needed"
        elif wanted.get(self.resource):
            asked = (
                f"the pod needs {self._amount(wanted[self.resource])} (the node that comes nearest has "
                f"{self._amount(self.more)})"
            )
        else:
            asked = f"the node that comes nearest has {self._amount(self.more)}"
        field = f"spec.limits.{'resources.' if self.pool.legacy else ''}{self.resource}"
        used = self._amount(self.used)
        limit = f"limit {self.resource} {self._amount(self.limit)} of {self.pool.key}"
        return f"{limit}: {used} used{of_plan}, {asked}; raise {field} or free nodes"

    def _amount(self, value: int) -> str:
        return str(value) if self.resource == "nodes" else Resources({self.resource: value}).to_kube()[self.resource]


@dataclass(frozen=True, slots=True)
class ReservationViolation:
    """A capacity reservation, and the number of its instances that were available before this plan."""

    instances: int

    @property
    def excess(self) -> float:
        """Return infinity: another pool does not help."""
        return float("inf")

    def text(self) -> str:
        """Return the reason for the pod's event, with a remedy."""
        left = f"the {self.instances} instances that are left of its capacity reservation"
        return f"{left} are planned for; enlarge the reservation, or let the pool use other capacity types"


@dataclass(frozen=True, slots=True)
class CeilingViolation:
    """A ceiling of the cluster's settings over all pools: a number of nodes, or a price in $/h."""

    of: Literal["nodes", "price"]
    limit: float
    used: float
    more: float

    @property
    def excess(self) -> float:
        """Return infinity: another pool does not help."""
        return float("inf")

    def text(self) -> str:
        """Return the reason for the pod's event, with a remedy."""
        if self.of == "nodes":
            usage, field = (
                f"the cluster's ceiling of {self.limit:g} nodes: {self.used:g} are there or planned",
                "ceilings.nodes",
            )
        else:
            spent = f"{self.used:.4f} $/h are there or planned, one more node costs {self.more:.4f}"
            usage, field = f"the cluster's ceiling of {self.limit:g} $/h: {spent}", "ceilings.pricePerHour"
        return f"{usage}; raise {field} in clusters/NAME.yaml and deploy, or free nodes"


@dataclass(frozen=True, slots=True)
class AddressViolation:
    """Subnets without a free address for one more node. ``subnets`` names them and their free addresses."""

    subnets: str

    @property
    def excess(self) -> float:
        """Return infinity: another pool does not help."""
        return float("inf")

    def text(self) -> str:
        """Return the reason for the pod's event, with a remedy. Addresses become free without a sign in the cluster."""
        return f"{self.subnets}: use larger or more subnets{TEMPORARY}"


LimitViolation = PoolLimitViolation | ReservationViolation | CeilingViolation | AddressViolation
