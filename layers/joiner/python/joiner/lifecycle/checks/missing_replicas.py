"""Find static pools with fewer nodes than their ``replicas``.

A pool whose missing nodes could not be launched is left out until something changes or its back-off ends.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.planning_back_off import describe_missing_replicas, find_classes_to_plan, replicas_key
from joiner.lifecycle.replica_counts import count_missing_replicas


def find_missing_replicas(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each pool."""
    missing = count_missing_replicas(survey.pools, survey.claims, survey.nodes, survey.launching)
    asked = describe_missing_replicas(missing, lists=survey.lists, unavailable=survey.unavailable, holds=survey.holds)
    asking = find_classes_to_plan(asked, survey.answers, survey.at)
    return [
        f"{pool} lacks {number} of its replicas"
        for pool, number in sorted(missing.items())
        if replicas_key(pool) in asking
    ]


MISSING_REPLICAS = ClusterCheck("missingReplicas", find_missing_replicas)
