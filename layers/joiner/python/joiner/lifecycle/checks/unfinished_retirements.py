"""Find nodes that were tainted for a retirement and whose claims are not deleted: the execution stopped in between.

They are requested as empty nodes: the retirement checks them again, and either continues or opens the node.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.retirement import RetirementReason
from joiner.names import DISRUPTED


def find_unfinished_retirements(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim; a claim of a disruption under way is left out."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        node = nodes.get(claim.key)
        if claim.name in survey.disrupting:  # DISRUPT finishes or undoes it
            continue
        if node is not None and node.has_taint(DISRUPTED) and not (claim.deleting or node.deletion):
            found.append(
                DueRetirement(
                    claim, RetirementReason.EMPTY, f"node {node.name} was tainted for a retirement that did not begin"
                )
            )
    return found


HALF_BEGUN = RetirementCheck("halfBegun", find_unfinished_retirements)
