"""What the sweep looks for: one file a check, each independent of the others.

Over one survey of the cluster: a `Check` returns a sentence for each case that a scale-up has to see to, and its name is the key of its
count in the sweep's answer; a `RetirementCheck` returns the claims that have to go. Over one survey of the instances: an `InstanceCheck`
returns what does not fit together on the two sides.
"""

from joiner.lifecycle.checks.closed_nodes import CLOSED_NODES
from joiner.lifecycle.checks.deleted import DELETED
from joiner.lifecycle.checks.empty import EMPTY
from joiner.lifecycle.checks.expired import EXPIRED
from joiner.lifecycle.checks.half_begun import HALF_BEGUN
from joiner.lifecycle.checks.instance_survey import Case, InstanceCheck, InstanceSurvey, SeenClaim, SeenInstance
from joiner.lifecycle.checks.lost_instances import LOST_INSTANCES
from joiner.lifecycle.checks.never_joined import NEVER_JOINED
from joiner.lifecycle.checks.orphan_claims import ORPHAN_CLAIMS
from joiner.lifecycle.checks.orphan_instances import ORPHAN_INSTANCES
from joiner.lifecycle.checks.orphan_nodes import ORPHAN_NODES
from joiner.lifecycle.checks.pending_pods import PENDING_PODS
from joiner.lifecycle.checks.stale_claims import STALE_CLAIMS
from joiner.lifecycle.checks.survey import Check, ClusterSurvey, Due, RetirementCheck
from joiner.lifecycle.checks.unwatched_claims import UNWATCHED_CLAIMS

CHECKS = (PENDING_PODS, UNWATCHED_CLAIMS, STALE_CLAIMS, CLOSED_NODES)

RETIREMENTS = (DELETED, NEVER_JOINED, EXPIRED, EMPTY, HALF_BEGUN)
"""The first that finds a claim says why it goes."""

INSTANCE_CHECKS = (LOST_INSTANCES, ORPHAN_CLAIMS, ORPHAN_INSTANCES, ORPHAN_NODES)

__all__ = [
    "CHECKS",
    "INSTANCE_CHECKS",
    "RETIREMENTS",
    "Case",
    "Check",
    "ClusterSurvey",
    "Due",
    "InstanceCheck",
    "InstanceSurvey",
    "RetirementCheck",
    "SeenClaim",
    "SeenInstance",
]
