"""What the sweep looks for in the cluster: one file a check, each independent of the others, all over one survey.

A check returns a sentence for each case that it finds. Its name is the key of its count in the sweep's answer.
"""

from joiner.lifecycle.checks.closed_nodes import CLOSED_NODES
from joiner.lifecycle.checks.pending_pods import PENDING_PODS
from joiner.lifecycle.checks.stale_claims import STALE_CLAIMS
from joiner.lifecycle.checks.survey import Check, ClusterSurvey
from joiner.lifecycle.checks.unwatched_claims import UNWATCHED_CLAIMS

CHECKS = (PENDING_PODS, UNWATCHED_CLAIMS, STALE_CLAIMS, CLOSED_NODES)

__all__ = ["CHECKS", "Check", "ClusterSurvey"]
