"""Find pods that wait for a node while none is in flight for them.

Pods that have an event with the reason are left out, unless something has changed since.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.claim_progress import list_uncovered_pods, open_assignments
from joiner.lifecycle.planning_back_off import describe_pending_classes, find_classes_to_plan
from joiner.pools.retiring_nodes import find_retiring_nodes


def find_pending_pods(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each pod."""
    kept = open_assignments(survey.progress.on_their_way, survey.assignments, survey.nodes, survey.pods)
    pods = list_uncovered_pods(survey.pods, kept.values(), leaving=find_retiring_nodes(survey.nodes, survey.claims))
    asked = describe_pending_classes(
        pods, bound=survey.pods, lists=survey.lists, unavailable=survey.unavailable, holds=survey.holds
    )
    asking = find_classes_to_plan(asked, survey.answers, survey.at)
    return [f"pod {pod.key} waits for a node" for pod in pods if pod.class_key in asking]


PENDING_PODS = ClusterCheck("pendingPods", find_pending_pods)
