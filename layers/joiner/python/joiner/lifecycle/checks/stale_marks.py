"""Find claims that show a disruption of which nothing is left: neither its record nor the taint of the node.

The condition would hide that the next mark of the node is incomplete. DISRUPT removes it when it settles disruptions.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.retirement import DISRUPTION_REASON
from joiner.names import DISRUPTED
from joiner.pools import NodeClaim


def find_stale_marks(survey: ClusterSurvey) -> list[NodeClaim]:
    """Return these claims. A tainted node is opened first (`find_unfinished_retirements`)."""
    nodes = survey.node_of()
    marked = (each for each in survey.claims if each.conditions.true(DISRUPTION_REASON) and not each.deleting)
    return [
        claim
        for claim in marked
        if claim.name not in survey.disrupting
        and ((node := nodes.get(claim.key)) is None or not node.has_taint(DISRUPTED))
    ]
