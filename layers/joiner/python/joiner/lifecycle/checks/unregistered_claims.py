"""Find claims whose node did not register, or registered and never took pods, within 15 minutes.

The execution that awaits a node gives it up after that time and writes a condition on the claim. A claim that no
execution awaits is found by its age. A node that joins late is accepted (`unwatched_claims`). If it cannot be accepted
or joins later still, it is retired with its claim. A node that never became ready for all its pods, but runs some,
stays: a person must check it.
"""

from joiner.lifecycle import node_deadlines
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.failed_claims import INITIALIZATION_TIMEOUT, WITHOUT_NODE, failure_reason, may_register_late
from joiner.lifecycle.retirement import RetirementReason


def find_unregistered_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim."""
    nodes = survey.node_of()
    found = []
    for claim in survey.claims:
        if claim.deleting:
            continue
        reason, node = failure_reason(claim), nodes.get(claim.key)
        if node is None and (reason in WITHOUT_NODE or node_deadlines.registration_timed_out(claim, survey.now)):
            found.append(DueRetirement(claim, RetirementReason.NEVER_JOINED, f"the node of {claim.key} never joined"))
        elif node is not None and reason in WITHOUT_NODE and not may_register_late(claim, survey.now):
            found.append(
                DueRetirement(
                    claim,
                    RetirementReason.NEVER_JOINED,
                    f"node {node.name} registered long after {claim.key} was given up",
                )
            )
        elif node is not None and reason == INITIALIZATION_TIMEOUT and survey.is_empty(node, survey.pods):
            found.append(DueRetirement(claim, RetirementReason.NEVER_JOINED, f"node {node.name} never took pods"))
    return found


NEVER_JOINED = RetirementCheck("neverJoined", find_unregistered_claims)
