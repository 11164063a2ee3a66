"""Planning: pods, pools, catalogue and cluster → a plan, its price, its bound, its explanation. Pure: the same world, the same plan."""

from joiner.planning.plan import Ceilings, ExistingNode, Offer, PendingPod, Plan, PlannedNode, Reason
from joiner.planning.planner import plan
from joiner.planning.snapshot import LISTED, Snapshot

__all__ = [
    "LISTED",
    "Ceilings",
    "ExistingNode",
    "Offer",
    "PendingPod",
    "Plan",
    "PlannedNode",
    "Reason",
    "Snapshot",
    "plan",
]
