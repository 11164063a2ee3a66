"""Find launched claims that no running execution awaits: an execution must register their nodes."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey


def find_unwatched_claims(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each claim."""
    return [f"no running execution awaits the node of {claim.key}" for claim in survey.progress.unwatched]


UNWATCHED_CLAIMS = ClusterCheck("unwatchedClaims", find_unwatched_claims)
