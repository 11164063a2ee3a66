"""What the annotations of a pool set for plans: the price of a node's running, burstable types, the blast radius, the
share of spot nodes, the schedule of replicas."""

from dataclasses import dataclass, field

from joiner.pools.replica_schedule import ReplicaSchedule


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """How much one node of a pool may hold. ``share`` is the largest share of one workload's equal pods on a node,
    ``vcpus`` is the largest node; None means no limit."""

    share: float | None = None
    vcpus: int | None = None


@dataclass(frozen=True, slots=True)
class PoolPlanning:
    """``overhead_price`` in $/h replaces that of the cluster's settings; None keeps it. ``full_burst`` plans burstable
    types with all of their vCPUs; by default they have their baseline, unless a pod or the pool names such types
    (``model/offer_compilation.py``). ``spot_share`` is the largest share of the pool's nodes
    that are spot nodes; None means no limit. ``schedule`` sets the replicas of a static pool by time of day.
    ``every_type`` opens bare metal and accelerators to all pods; no annotation sets it (``model/exotic_offers.py``)."""

    overhead_price: float | None = None
    full_burst: bool = False
    blast_radius: BlastRadius = field(default_factory=BlastRadius)
    spot_share: float | None = None
    schedule: ReplicaSchedule | None = None
    every_type: bool = False
