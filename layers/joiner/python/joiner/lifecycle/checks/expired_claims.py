"""Find claims that are older than their pool's maximum age.

A NodeClaim has its own `expireAfter`. A Machine has no such field: the present `ttlSecondsUntilExpired` of its
Provisioner applies.
"""

from datetime import timedelta

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.pools import NodeClaim


def find_expired_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim.

    As in Karpenter's legacy API, a Machine's node stays if it, or a pod on it, must not be disrupted.
    """
    nodes, pods = survey.node_of(), survey.pods_of()
    found = []
    for claim in survey.claims:
        after = _expire_after(claim, survey)
        if (
            claim.deleting
            or after is None
            or claim.created is None
            or survey.now - claim.created < timedelta(seconds=after)
        ):
            continue
        node = nodes.get(claim.key)
        if claim.kind == "Machine" and node is not None and survey.disturbance(claim, node, pods.get(node.name, ())):
            continue
        found.append(DueRetirement(claim, "expired", f"{claim.key} is older than {after} s"))
    return found


def _expire_after(claim: NodeClaim, survey: ClusterSurvey) -> int | None:
    if claim.kind == "NodeClaim":
        return claim.expire_after
    pool = survey.pool_of().get(claim.pool_key)
    return pool.expire_after if pool is not None else None


EXPIRED = RetirementCheck("expired", find_expired_claims)
