"""Nodes of ours that have lost both halves, their claims and their instances: their finalizer would hold them for ever.

They are retired under the name of the claim that was, or under their own if nobody knows it: nothing is left but the
Node.
"""

from joiner.lifecycle.checks.instance_survey import InstanceCheck, InstanceSurvey, Mismatch

ENDED = frozenset({"shutting-down", "terminated"})


def find_orphan_nodes(survey: InstanceSurvey) -> list[Mismatch]:
    """One node each."""
    known = {claim.instance for claim in survey.claims}
    found = []
    for instance in sorted(survey.ours - known):
        seen, node = survey.instances.get(instance), survey.nodes[instance]
        if seen is None or seen.state in ENDED:
            said = (
                f"node {node} has no claim, and its instance {instance} "
                f"{'is gone' if seen is None else f'is {seen.state}'}"
            )
            claim = survey.pairings.get(instance, "") or node
            found.append(
                Mismatch(
                    "retire",
                    said,
                    claim=claim,
                    instance=instance,
                    node=node,
                    reason="lost",
                    absent=f"halves-of/{instance}",
                )
            )
    return found


ORPHAN_NODES = InstanceCheck("orphanNodes", find_orphan_nodes)
