"""Planning turns pods, pools, catalogue and cluster into a plan with its price, lower bound and explanation. Pure: the
same state gives the same plan.

The package has the names of what a plan is made of and of the plan itself. The planner is in ``planner``: most
functions only read snapshots and plans, and start without it.
"""

from joiner.planning.inputs.snapshot import LISTED, Snapshot
from joiner.planning.plan import ExistingNode, Offer, PendingPod, Plan, PlannedNode, Reason
from joiner.planning.plan_policies import Ceilings, PlanPolicies, PlanTolerances
from joiner.planning.unlaunched_nodes import UnlaunchedNodes

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
    "Reason",
    "Snapshot",
    "UnlaunchedNodes",
]
