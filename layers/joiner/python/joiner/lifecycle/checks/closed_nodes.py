"""Find nodes that are closed for filling for longer than the limit, because no execution opened them."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.initialization import closed_too_long


def find_closed_nodes(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each node."""
    return [
        f"node {node.name} has been closed for too long" for node in survey.nodes if closed_too_long(node, survey.now)
    ]


CLOSED_NODES = ClusterCheck("closedNodes", find_closed_nodes)
