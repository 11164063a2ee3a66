"""Pods that wait for a node while none is on its way for them, but for those that were told why, and nothing has changed since."""

from joiner.lifecycle.answered import questions, to_ask
from joiner.lifecycle.checks.survey import Check, ClusterSurvey
from joiner.lifecycle.progress import open_assignments, uncovered
from joiner.pools.leaving import leaving_nodes


def look(survey: ClusterSurvey) -> list[str]:
    """One sentence a pod."""
    kept = open_assignments(survey.progress.on_their_way, survey.assignments, survey.nodes, survey.pods)
    pods = uncovered(survey.pods, kept.values(), leaving=leaving_nodes(survey.nodes, survey.claims))
    asked = questions(pods, bound=survey.pods, lists=survey.lists, unavailable=survey.unavailable)
    asking = to_ask(asked, survey.answers, survey.at)
    return [f"pod {pod.key} waits for a node" for pod in pods if pod.class_key in asking]


PENDING_PODS = Check("pendingPods", look)
