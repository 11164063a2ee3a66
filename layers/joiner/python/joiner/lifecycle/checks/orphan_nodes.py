"""Find nodes of this cluster without claim and without instance: their finalizer would keep them forever.

They are retired under the name of their former claim, or under their own if it is unknown: only the Node is left.
"""

from joiner.lifecycle.checks.instance_survey import InstanceCheck, InstanceSurvey, Mismatch

ENDED = frozenset({"shutting-down", "terminated"})


def find_orphan_nodes(survey: InstanceSurvey) -> list[Mismatch]:
    """Return one entry for each node."""
    known = {claim.instance for claim in survey.claims}
    found = []
    for instance in sorted(survey.ours - known):
        seen, node = survey.instances.get(instance), survey.nodes[instance]
        if seen is None or seen.state in ENDED:
            message = (
                f"node {node} has no claim, and its instance {instance} "
                f"{'is gone' if seen is None else f'is {seen.state}'}"
            )
            claim = survey.pairings.get(instance, "") or node
            found.append(
                Mismatch(
                    "retire",
                    message,
                    claim=claim,
                    instance=instance,
                    node=node,
                    reason="lost",
                    absent=f"halves-of/{instance}",
                )
            )
    return found


ORPHAN_NODES = InstanceCheck("orphanNodes", find_orphan_nodes)
