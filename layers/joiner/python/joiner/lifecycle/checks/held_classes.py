"""Find node classes whose finalizer must change, and pools whose condition is about a former class: a scale-up changes
both under the lease.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.class_finalizers import find_finalizer_changes
from joiner.lifecycle.declared_status import find_outdated_class_conditions
from joiner.names import NODE_CLASS_RESOURCES


def find_unsettled_classes(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each class and for each pool."""
    classes = [manifest for plural in NODE_CLASS_RESOURCES for manifest in survey.lists.get(plural, ())]
    deleting = {
        f"{one['kind']}/{one['metadata']['name']}": bool(one["metadata"].get("deletionTimestamp")) for one in classes
    }
    outdated = find_outdated_class_conditions(survey.pools, deleting)
    return [f"the condition NodeClassReady of {key} is about a former class" for key in outdated] + [
        f"{hold.kind}/{hold.name} {'has claims and no finalizer' if hold.added else 'is deleted and has no claims'}"
        for hold in find_finalizer_changes(classes, survey.claims)
    ]


UNSETTLED_CLASSES = ClusterCheck("unsettledClasses", find_unsettled_classes)
