"""Nodes that are being drained or deleted. Their pods will need other nodes."""

from collections.abc import Iterable
from typing import Final

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


DRAINED: Final = "Drained"
"""The condition of a claim whose node is drained. It is Unknown while the drain waits; its message then names the pods
that may not be evicted, and is empty if there are none. `joiner.lifecycle.retirement` writes it."""


def find_blocked_drains(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes with pods that their drain may not evict, because of a PodDisruptionBudget or an
    annotation.
    """
    blocked = [claim for claim in claims if (found := claim.conditions[DRAINED]).status == "Unknown" and found.message]
    instances = {claim.provider_id for claim in blocked if claim.provider_id}
    named = {claim.node_name for claim in blocked if claim.node_name and not claim.provider_id}
    return frozenset(node.name for node in nodes if node.provider_id in instances or node.name in named)
