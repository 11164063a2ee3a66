"""Find CapacityBuffers to plan for.

Changed buffers and changed free capacity are two checks, because only the first one delays the disruption of nodes:
free capacity changes with every pod that is bound, and in a busy cluster no node would be consolidated.
"""

from joiner.lifecycle.buffer_planning import are_buffers_due, describe_buffers, is_free_capacity_due
from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey


def find_changed_buffers(survey: ClusterSurvey) -> list[str]:
    """Return one sentence if the buffers, or what they name, are not planned as they are written."""
    written = describe_buffers(survey.lists, served=False, bound=(), nodes=(), unavailable=())
    due = are_buffers_due(written, survey.answers, survey.at)
    return ["the last plan does not have the CapacityBuffers as they are now"] if due else []


def find_buffers_to_plan(survey: ClusterSurvey) -> list[str]:
    """Return one sentence if the buffers are not planned for the present free capacity."""
    described = describe_buffers(
        survey.lists,
        served=survey.buffered is not None,
        bound=survey.pods,
        nodes=survey.nodes,
        unavailable=survey.unavailable,
        holds=survey.holds,
    )
    due = is_free_capacity_due(described, survey.answers, survey.at)
    return ["the last plan for CapacityBuffers was made for other nodes and pods"] if due else []


CHANGED_BUFFERS = ClusterCheck("changedBuffers", find_changed_buffers)
BUFFERS_TO_PLAN = ClusterCheck("buffersToPlan", find_buffers_to_plan)
