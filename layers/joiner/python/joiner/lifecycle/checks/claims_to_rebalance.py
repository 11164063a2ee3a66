"""Find claims whose Spot Instance EC2 recommends to replace, in pools that follow such recommendations.

The pool decides by its annotation ``joiner.dev/rebalance``: ``ignore`` (the default, as in Karpenter), ``replace`` or
``drain``. This check finds the nodes to drain; ``disruption`` finds those to replace. A recommendation comes earlier
than the interruption warning, or with it, and is no certain sign of an interruption. The drain respects budgets of pods
and ``karpenter.sh/do-not-disrupt`` until the claim's `terminationGracePeriod`. Source: EC2 user guide, "EC2 instance
rebalance recommendations".
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.retirement import RetirementReason
from joiner.names import DISRUPTED


def find_recommended_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim, the earliest recommendation first."""
    pools, nodes = survey.pool_of(), survey.node_of()
    found = []
    for claim in sorted(survey.claims, key=lambda each: (survey.recommended.get(each.name, 0), each.name)):
        pool, node = pools.get(claim.pool_key), nodes.get(claim.key)
        if claim.name not in survey.recommended or claim.deleting or pool is None:
            continue
        if pool.disruption.settings.rebalance == "drain" and not (node is not None and node.has_taint(DISRUPTED)):
            message = f"EC2 recommends to replace the instance of {claim.key}, and {pool.key} drains such nodes"
            found.append(DueRetirement(claim, RetirementReason.REBALANCE, message))
    return found


RECOMMENDED = RetirementCheck("recommended", find_recommended_claims)
