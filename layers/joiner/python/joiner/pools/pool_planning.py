"""What the annotations of a pool set for plans: the price of a node's running, burstable types, the blast radius."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """How far nodes of a pool may be merged. ``share`` is the largest share of one workload's pods on a merged node,
    ``vcpus`` is the largest merged node; None means no limit."""

    share: float | None = None
    vcpus: int | None = None


@dataclass(frozen=True, slots=True)
class PoolPlanning:
    """``overhead_price`` in $/h replaces that of the cluster's settings; None keeps it. ``full_burst`` plans burstable
    types with all of their vCPUs instead of their baseline."""

    overhead_price: float | None = None
    full_burst: bool = False
    blast_radius: BlastRadius = field(default_factory=BlastRadius)
