"""Find standalone claims without an instance.

A claim that could not be launched is left out until something changes or its back-off ends.
"""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey
from joiner.lifecycle.planning_back_off import describe_claims_to_launch, find_classes_to_plan, replicas_key


def find_unlaunched_claims(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each claim."""
    asked = describe_claims_to_launch(
        survey.claims, survey.launching, lists=survey.lists, unavailable=survey.unavailable
    )
    asking = find_classes_to_plan(asked, survey.answers, survey.at)
    keys = (claim.key for claim in survey.claims)
    return [f"{key} waits for its instance" for key in keys if replicas_key(key) in asking]


UNLAUNCHED_CLAIMS = ClusterCheck("unlaunchedClaims", find_unlaunched_claims)
