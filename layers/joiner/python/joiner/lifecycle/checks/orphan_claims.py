"""Find claims without their instance or node: EC2 does not know the instance, or the registered node is gone."""

from joiner.lifecycle.checks.instance_survey import InstanceCheck, InstanceSurvey, Mismatch, SeenClaim


def find_orphan_claims(survey: InstanceSurvey) -> list[Mismatch]:
    """Return one entry for each claim. A claim without an instance id is left out: it is not launched yet."""
    found = []
    for claim in survey.claims:
        if not claim.instance or claim.deleting:
            continue
        if claim.instance not in survey.instances:
            found.append(
                _case(claim, "lost", f"EC2 knows no instance {claim.instance} of {claim.kind}/{claim.name}", "instance")
            )
        elif claim.registered and claim.instance not in survey.nodes and not survey.instances[claim.instance].gone:
            found.append(
                _case(claim, "deleted", f"the node of {claim.kind}/{claim.name} does not exist any more", "node")
            )
    return found


def _case(claim: SeenClaim, reason: str, message: str, absent: str) -> Mismatch:
    return Mismatch(
        "retire", message, claim=claim.name, instance=claim.instance, reason=reason, absent=f"{absent}-of/{claim.name}"
    )


ORPHAN_CLAIMS = InstanceCheck("orphanClaims", find_orphan_claims)
