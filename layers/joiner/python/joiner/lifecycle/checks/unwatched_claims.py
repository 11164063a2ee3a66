"""Claims that were launched and that no living execution awaits: somebody has to join their nodes."""

from joiner.lifecycle.checks.survey import Check, ClusterSurvey


def look(survey: ClusterSurvey) -> list[str]:
    """One sentence a claim."""
    return [f"nobody awaits the node of {claim.key}" for claim in survey.progress.unwatched]


UNWATCHED_CLAIMS = Check("unwatchedClaims", look)
