"""Claims whose node never came, or came and never took pods: 15 minutes are more than any node needs.

Whoever awaits a node gives it up after that time and says so on the claim; a claim that nobody awaits is found by its
own age. A node that comes late is taken in (`unwatched_claims`); one that could not be, or that came later still, goes
with its claim. A node that never became ready for all its pods, but runs some, stays: a person must look.
"""

from joiner.lifecycle import deadlines
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.failed_claims import INITIALIZATION_TIMEOUT, WITHOUT_NODE, failure_reason, may_register_late


def find_unregistered_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """One claim each."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        if claim.deleting:
            continue
        reason, node = failure_reason(claim), nodes.get(claim.key)
        if node is None and (reason in WITHOUT_NODE or deadlines.registration_timed_out(claim, survey.now)):
            found.append(DueRetirement(claim, "never-joined", f"the node of {claim.key} never joined"))
        elif node is not None and reason in WITHOUT_NODE and not may_register_late(claim, survey.now):
            found.append(
                DueRetirement(claim, "never-joined", f"node {node.name} came long after {claim.key} was given up")
            )
        elif node is not None and reason == INITIALIZATION_TIMEOUT and survey.is_empty(node, survey.pods):
            found.append(DueRetirement(claim, "never-joined", f"node {node.name} never took pods"))
    return found


NEVER_JOINED = RetirementCheck("neverJoined", find_unregistered_claims)
