"""Nodes that are closed for filling longer than any node may be: whoever should have opened them did not."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.initialization import closed_too_long


def find_closed_nodes(survey: ClusterSurvey) -> list[str]:
    """One sentence a node."""
    return [
        f"node {node.name} has been closed for too long" for node in survey.nodes if closed_too_long(node, survey.now)
    ]


CLOSED_NODES = ClusterCheck("closedNodes", find_closed_nodes)
