"""Find claims whose instances are gone or stopped without Joiner. EC2 reports it, so one survey is enough."""

from joiner.lifecycle.checks.instance_survey import InstanceCheck, InstanceSurvey, Mismatch


def find_lost_instances(survey: InstanceSurvey) -> list[Mismatch]:
    """Return one entry for each claim, including claims that are being deleted: nothing remains to drain.

    Claims that Joiner has released are left out: nothing remains to do.
    """
    found = []
    for claim in survey.claims:
        instance = survey.instances.get(claim.instance)
        if instance is not None and instance.gone and not claim.released:
            message = f"instance {instance.id} of {claim.kind}/{claim.name} is {instance.state}"
            found.append(Mismatch("retire", message, claim=claim.name, instance=instance.id, reason="lost"))
    return found


LOST_INSTANCES = InstanceCheck("lostInstances", find_lost_instances)
