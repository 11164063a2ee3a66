"""Nodes that are being drained or deleted. Their pods will need other nodes."""

from collections.abc import Iterable

from joiner.cluster import Node
from joiner.pools.node_claim import NodeClaim


def find_retiring_nodes(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes that are being drained or deleted, or whose claims are."""
    deleting = [claim for claim in claims if claim.deleting]
    instances = {claim.provider_id for claim in deleting if claim.provider_id}
    named = {claim.node_name for claim in deleting if claim.node_name and not claim.provider_id}
    return frozenset(
        node.name for node in nodes if node.retiring or node.provider_id in instances or node.name in named
    )
