"""Find node classes whose finalizer must change, and pools whose condition is about a former class: a scale-up changes
both under the lease.

What a scale-up could not change is left out until its back-off ends.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.planning_back_off import find_classes_to_plan
from joiner.lifecycle.unsettled_classes import describe_unsettled_classes, find_unsettled_classes


def find_classes_to_settle(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each class and for each pool."""
    found = find_unsettled_classes(survey.pools, survey.lists, survey.classes, survey.claims, survey.problems)
    due = find_classes_to_plan(describe_unsettled_classes(found), survey.answers, survey.at)
    return [one.message for one in found if describe_unsettled_classes([one]).keys() & due]


UNSETTLED_CLASSES = ClusterCheck("unsettledClasses", find_classes_to_settle)
