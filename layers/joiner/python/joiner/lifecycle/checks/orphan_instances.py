"""Find instances without a claim. Their claims are rebuilt if their nodes exist; otherwise they are garbage.

An instance of a launch whose outcome is not recorded yet is left out: its claim gets its id later. A rebuilt claim that
lacks its instance's id, because the rebuild stopped, is rebuilt completely.
"""

from joiner.lifecycle.checks.instance_survey import InstanceCheck, InstanceSurvey, Mismatch


def find_orphan_instances(survey: InstanceSurvey) -> list[Mismatch]:
    """Return one entry for each instance."""
    known = {claim.instance for claim in survey.claims if claim.instance}
    found = []
    for instance in sorted(survey.instances.values(), key=lambda each: each.id):
        claim = survey.pairings.get(instance.id, "")
        if (
            instance.id in known
            or instance.state in ("shutting-down", "terminated")
            or instance.launch in survey.unrecorded
        ):
            continue
        node, absent = survey.nodes.get(instance.id, ""), f"claim-of/{instance.id}"
        if node:
            message = f"no claim has instance {instance.id}, and node {node} runs on it"
            found.append(Mismatch("rebuild", message, claim=claim, instance=instance.id, node=node, absent=absent))
        else:
            found.append(
                Mismatch(
                    "collect",
                    f"no claim has instance {instance.id}",
                    claim=claim,
                    instance=instance.id,
                    absent=absent,
                )
            )
    return found


ORPHAN_INSTANCES = InstanceCheck("orphanInstances", find_orphan_instances)
