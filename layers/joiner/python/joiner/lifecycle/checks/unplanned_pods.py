"""Find pods that wait for a node while none is in flight for them, and CapacityBuffers to plan for.

Pods that have an event with the reason are left out, unless something has changed since.
"""

from joiner.lifecycle.buffer_planning import describe_buffers, find_buffers_to_plan
from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.planning_back_off import describe_pending_classes, find_classes_to_plan
from joiner.lifecycle.progress import list_uncovered_pods, open_assignments
from joiner.pools.retiring_nodes import find_retiring_nodes


def find_pending_pods(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each pod, and for what changed for the buffers."""
    kept = open_assignments(survey.progress.on_their_way, survey.assignments, survey.nodes, survey.pods)
    pods = list_uncovered_pods(survey.pods, kept.values(), leaving=find_retiring_nodes(survey.nodes, survey.claims))
    asked = describe_pending_classes(pods, bound=survey.pods, lists=survey.lists, unavailable=survey.unavailable)
    asking = find_classes_to_plan(asked, survey.answers, survey.at)
    buffers = describe_buffers(survey.lists, bound=survey.pods, nodes=survey.nodes, unavailable=survey.unavailable)
    return [
        *(f"pod {pod.key} waits for a node" for pod in pods if pod.class_key in asking),
        *find_buffers_to_plan(buffers, survey.answers, survey.at),
    ]


PENDING_PODS = ClusterCheck("pendingPods", find_pending_pods)
