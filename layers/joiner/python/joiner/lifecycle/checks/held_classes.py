"""Find node classes whose finalizer must change: a scale-up changes it under the lease."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.class_finalizers import find_finalizer_changes
from joiner.names import NODE_CLASS_RESOURCES


def find_unsettled_classes(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each class."""
    classes = [manifest for plural in NODE_CLASS_RESOURCES for manifest in survey.lists.get(plural, ())]
    return [
        f"{hold.kind}/{hold.name} {'has claims and no finalizer' if hold.added else 'is deleted and has no claims'}"
        for hold in find_finalizer_changes(classes, survey.claims)
    ]


UNSETTLED_CLASSES = ClusterCheck("unsettledClasses", find_unsettled_classes)
