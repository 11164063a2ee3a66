"""Claims that are older than their pool lets nodes become.

A NodeClaim carries its own `expireAfter`. A Machine has no such field: its Provisioner's `ttlSecondsUntilExpired`
counts, as it stands now.
"""

from datetime import timedelta

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.pools import NodeClaim


def find_expired_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """One claim each; a Machine's node that must not be disrupted stays, as it did then, and so does one with a pod
    that must not be.
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
