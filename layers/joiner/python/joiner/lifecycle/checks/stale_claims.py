"""Claims whose lease passed before they were launched: a scale-up under the lease takes them away, unlaunched."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey


def find_stale_claims(survey: ClusterSurvey) -> list[str]:
    """One sentence a claim."""
    return [f"{claim.key} was never launched and its lease {claim.lease} has passed" for claim in survey.progress.stale]


STALE_CLAIMS = ClusterCheck("staleClaims", find_stale_claims)
