"""Claims whose lease passed before they were launched: a scale-up under the lease takes them away, unlaunched."""

from joiner.lifecycle.checks.survey import Check, ClusterSurvey


def look(survey: ClusterSurvey) -> list[str]:
    """One sentence a claim."""
    return [f"{claim.key} was never launched and its lease {claim.lease} has passed" for claim in survey.progress.stale]


STALE_CLAIMS = Check("staleClaims", look)
