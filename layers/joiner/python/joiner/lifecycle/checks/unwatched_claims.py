"""Claims that were launched and that no living execution awaits: somebody has to join their nodes."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey


def find_unwatched_claims(survey: ClusterSurvey) -> list[str]:
    """One sentence a claim."""
    return [f"nobody awaits the node of {claim.key}" for claim in survey.progress.unwatched]


UNWATCHED_CLAIMS = ClusterCheck("unwatchedClaims", find_unwatched_claims)
