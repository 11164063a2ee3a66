"""Claims whose node never came, or came and never took pods: 15 minutes are more than any node needs.

Whoever awaits a node gives it up after that time and says so on the claim; a claim that nobody awaits is found by its own age.
A node that comes late is taken in (`unwatched_claims`); one that could not be, or that came later still, goes with its claim.
A node that never became ready for all its pods, but runs some, stays: a person must look.
"""

from joiner.lifecycle import deadlines
from joiner.lifecycle.checks.survey import ClusterSurvey, Due, RetirementCheck
from joiner.lifecycle.giving_up import INITIALIZATION_TIMEOUT, WITHOUT_NODE, given_up_for, may_join_late


def look(survey: ClusterSurvey) -> list[Due]:
    """One claim each."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        if claim.deleting:
            continue
        reason, node = given_up_for(claim), nodes.get(claim.key)
        if node is None and (reason in WITHOUT_NODE or deadlines.never_registered(claim, survey.now)):
            found.append(Due(claim, "never-joined", f"the node of {claim.key} never joined"))
        elif node is not None and reason in WITHOUT_NODE and not may_join_late(claim, survey.now):
            found.append(Due(claim, "never-joined", f"node {node.name} came long after {claim.key} was given up"))
        elif node is not None and reason == INITIALIZATION_TIMEOUT and survey.is_empty(node, survey.pods):
            found.append(Due(claim, "never-joined", f"node {node.name} never took pods"))
    return found


NEVER_JOINED = RetirementCheck("neverJoined", look)
