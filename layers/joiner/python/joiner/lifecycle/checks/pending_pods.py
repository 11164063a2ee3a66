"""Pods that wait for a node while none is on its way for them."""

from joiner.lifecycle.checks.survey import Check, ClusterSurvey
from joiner.lifecycle.progress import open_assignments, uncovered


def look(survey: ClusterSurvey) -> list[str]:
    """One sentence a pod."""
    kept = open_assignments(survey.progress.on_their_way, survey.assignments, survey.nodes, survey.pods)
    return [f"pod {pod.key} waits for a node" for pod in uncovered(survey.pods, kept.values())]


PENDING_PODS = Check("pendingPods", look)
