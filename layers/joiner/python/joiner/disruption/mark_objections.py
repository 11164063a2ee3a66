"""Why the nodes of a validated action are not marked: the cluster changed since the validation."""

from collections.abc import Collection, Sequence

from joiner.cluster import Node
from joiner.pools import NodeClaim


def find_objection_to_mark(
    claims: Collection[str], pairs: Sequence[tuple[NodeClaim, Node]], leaving: Collection[str]
) -> str:
    """Return why an action may not begin any more; empty if it may.

    `claims` are the names of the action's claims, `pairs` those of them that exist, with their nodes, and `leaving` the
    keys of pools with an empty node whose retirement was requested: it counts against the budgets.
    """
    if len(pairs) < len(claims):
        return "a claim or its node is gone"
    for claim, node in pairs:
        if claim.deleting or node.retiring:
            return f"node {node.name} is being removed"
        if claim.pool_key in leaving:
            return f"an empty node of {claim.pool_key} is about to be removed, which counts against the budgets"
    return ""
