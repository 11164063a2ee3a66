"""Nodes that were closed to be retired, while their claims are not deleted: who closed them died before it could go on
or take it back.

They are asked for as if they were empty: the retirement looks again, and either goes on or opens the node.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.names import DISRUPTED


def find_unfinished_retirements(survey: ClusterSurvey) -> list[DueRetirement]:
    """One claim each; whoever is at it just now has it in the ledger, and is left alone."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        node = nodes.get(claim.key)
        if node is not None and node.has_taint(DISRUPTED) and not (claim.deleting or node.deletion):
            found.append(DueRetirement(claim, "empty", f"node {node.name} was closed to be retired, and is not"))
    return found


HALF_BEGUN = RetirementCheck("halfBegun", find_unfinished_retirements)
