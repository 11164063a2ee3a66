"""Find pods that wait for a node while none is in flight for them.

Pods that have an event with the reason are left out, unless something has changed since.
"""

from joiner.cluster import Pod
from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.claim_progress import find_uncovered_pods, open_assignments
from joiner.lifecycle.planning_back_off import describe_pending_classes, find_classes_to_plan


def list_pods_without_node(survey: ClusterSurvey) -> list[Pod]:
    """Return the pods for which no node is in flight: pending ones, and those that have to leave their node."""
    kept = open_assignments(survey.progress.on_their_way, survey.assignments, survey.nodes, survey.pods)
    return find_uncovered_pods(survey.pods, kept.values(), survey.nodes, survey.claims)


def find_pending_pods(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each pod."""
    pods = list_pods_without_node(survey)
    asked = describe_pending_classes(
        pods, bound=survey.pods, lists=survey.lists, unavailable=survey.unavailable, holds=survey.holds
    )
    asking = find_classes_to_plan(asked, survey.answers, survey.at)
    return [f"pod {pod.key} waits for a node" for pod in pods if pod.class_key in asking]


PENDING_PODS = ClusterCheck("pendingPods", find_pending_pods)
