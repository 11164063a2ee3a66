"""Find deleted claims and nodes: their finalizers keep them until they are drained and their instances are gone.

A claim that may still be launched is left out until its launch is recorded. Its instance is then retired with it. A
claim that Joiner has released is left out, too: it waits for other controllers.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.retirement import RetirementReason
from joiner.pools import NodeClaim
from joiner.pools.standalone_claims import may_be_launched_by_holder


def find_deleted_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim, whether the claim or its node was deleted."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        if claim.released:
            continue
        node = nodes.get(claim.key)
        if claim.deleting and not _may_be_launched(claim, survey):
            found.append(DueRetirement(claim, RetirementReason.DELETED, f"{claim.key} was deleted"))
        elif node is not None and node.deletion:
            found.append(DueRetirement(claim, RetirementReason.DELETED, f"node {node.name} was deleted"))
    return found


def _may_be_launched(claim: NodeClaim, survey: ClusterSurvey) -> bool:
    written = claim.lease >= survey.lease > 0 or (survey.planning and may_be_launched_by_holder(claim))
    return not claim.provider_id and (claim.name in survey.launching or written)


DELETED = RetirementCheck("deleted", find_deleted_claims)
