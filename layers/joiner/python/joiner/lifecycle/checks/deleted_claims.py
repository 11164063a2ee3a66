"""Claims and nodes that somebody deleted: their finalizers hold them until they are drained and their instances are
gone.

A claim that may still be launched is left alone until its launch is recorded: what it gets then is retired with it.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.pools import NodeClaim


def find_deleted_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """One claim each, whichever of the two was deleted."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        node = nodes.get(claim.key)
        if claim.deleting and not _may_be_launched(claim, survey):
            found.append(DueRetirement(claim, "deleted", f"{claim.key} was deleted"))
        elif node is not None and node.deletion:
            found.append(DueRetirement(claim, "deleted", f"node {node.name} was deleted"))
    return found


def _may_be_launched(claim: NodeClaim, survey: ClusterSurvey) -> bool:
    return not claim.provider_id and (claim.name in survey.launching or claim.lease >= survey.lease > 0)


DELETED = RetirementCheck("deleted", find_deleted_claims)
