"""Planning turns pods, pools, catalogue and cluster into a plan with its price, lower bound and explanation. Pure: the
same state gives the same plan."""

from joiner.planning.inputs.snapshot import LISTED, Snapshot
from joiner.planning.plan import ExistingNode, Offer, PendingPod, Plan, PlannedNode, Reason
from joiner.planning.plan_policies import Ceilings, PlanPolicies, PlanTolerances
from joiner.planning.planner import Planner, plan

__all__ = [
    "LISTED",
    "Ceilings",
    "ExistingNode",
    "Offer",
    "PendingPod",
    "Plan",
    "PlanPolicies",
    "PlanTolerances",
    "PlannedNode",
    "Planner",
    "Reason",
    "Snapshot",
    "plan",
]
