"""Find claims whose lease expired before they were launched: a scale-up deletes them under the lease."""

from joiner.lifecycle.checks.cluster_survey import ClusterCheck, ClusterSurvey


def find_stale_claims(survey: ClusterSurvey) -> list[str]:
    """Return one sentence for each claim, except those whose deletion failed and is not due again."""
    failed = survey.failed_writes
    return [
        f"{claim.key} was never launched and its lease {claim.lease} has passed"
        for claim in survey.progress.stale
        if claim.name not in failed or not failed[claim.name].wait(survey.at)
    ]


STALE_CLAIMS = ClusterCheck("staleClaims", find_stale_claims)
