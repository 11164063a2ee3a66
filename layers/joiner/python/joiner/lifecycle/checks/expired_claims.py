"""Find claims that are older than their pool's maximum age (`pools.expiration`).

Nodes of a pool with graceful expiration are not found here: they are replaced within the budgets (`disruption`).
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.retirement import RetirementReason
from joiner.pools.expiration import expire_after, expires_at


def find_expired_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim.

    As in Karpenter's legacy API, a Machine's node stays if it, or a pod on it, must not be disrupted; and if its
    Provisioner cannot launch another node. The `expireAfter` of a NodeClaim is a deadline, which nothing extends.
    """
    nodes, pods, pools = survey.node_of(), survey.pods_of(), survey.pool_of()
    invalid = _invalid_pools(survey)
    found = []
    for claim in survey.claims:
        pool = pools.get(claim.pool_key)
        end = expires_at(claim, pool)
        if claim.deleting or end is None or survey.now < end:
            continue
        if claim.pool_key in invalid or (pool is not None and pool.disruption.settings.expiration.graceful):
            continue  # whether the expiration of an invalid pool is graceful is not known
        node = nodes.get(claim.key)
        if claim.kind == "Machine" and node is not None and survey.disturbance(claim, node, pods.get(node.name, ())):
            continue
        if claim.kind == "Machine" and claim.pool_key in survey.closed_pools:
            continue
        found.append(
            DueRetirement(claim, RetirementReason.EXPIRED, f"{claim.key} is older than {expire_after(claim, pool)} s")
        )
    return found


def _invalid_pools(survey: ClusterSurvey) -> frozenset[str]:
    """Return the keys of the pools that are there and cannot be read."""
    broken = {problem.object for problem in survey.problems if problem.severity == "error"}
    return frozenset(broken - {pool.key for pool in survey.pools})


EXPIRED = RetirementCheck("expired", find_expired_claims)
