"""Registration of a node: which claim it belongs to, and the labels and annotations that it gets.

Source: Karpenter, core `pkg/controllers/nodeclaim/lifecycle/registration.go`. The kubelet may not set labels of
Kubernetes' own domains on its Node (NodeRestriction), and does not know its owner: Joiner sets them when it first sees
the Node.

A deleted Node waits for its finalizer until it is drained and its instance is gone, regardless of who deleted it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Taint
from joiner.cluster.node_shards import shard_of
from joiner.pools import NodeClaim

NOT_ON_NODES: Final = frozenset({names.LEASE, names.GENERATIONS})  # annotations of a claim that do not concern its node


@dataclass(frozen=True, slots=True)
class ClaimAndNode:
    """A launched claim and the node of its instance, if it has joined. `others` are further nodes with the same
    instance id.
    """

    claim: NodeClaim
    node: Node | None
    others: tuple[str, ...] = ()


def match_nodes(claims: Iterable[NodeClaim], nodes: Iterable[Node]) -> list[ClaimAndNode]:
    """Return each claim with the node of its provider id, in the claims' order.

    If two nodes have the same instance id, neither is matched: a person must check them.
    """
    by_provider_id: dict[str, list[Node]] = {}
    for node in nodes:
        if node.provider_id:
            by_provider_id.setdefault(node.provider_id, []).append(node)
    matches = []
    for claim in claims:
        found = by_provider_id.get(claim.provider_id, []) if claim.provider_id else []
        several = tuple(sorted(node.name for node in found)) if len(found) > 1 else ()
        matches.append(ClaimAndNode(claim, found[0] if len(found) == 1 else None, several))
    return matches


def is_registered(node: Node) -> bool:
    """Return whether the node is already registered with its claim."""
    return node.labels.get(names.REGISTERED) == "true"


def was_registered_before(match: ClaimAndNode) -> bool:
    """Return whether both the node and its claim were registered in an earlier pass, so that nothing is written for
    them.
    """
    claim, node = match.claim, match.node
    if node is None or node.deletion:
        return False
    return is_registered(node) and claim.registered and claim.node_name == node.name


def joined_without_taint(node: Node) -> bool:
    """Return whether the node joined without the taint that keeps pods off until registration: its user data is not
    Joiner's.
    """
    return not is_registered(node) and not node.has_taint(names.UNREGISTERED)


def registration_patch(claim: NodeClaim, node: Node) -> dict[str, Any]:
    """Return the merge patch that registers a node with its claim.

    A merge patch replaces lists, so it contains the resourceVersion at which they were read.
    """
    mine = {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "name": claim.name,
        "uid": claim.uid,
        "blockOwnerDeletion": True,
    }
    others = [dict(owner) for owner in node.owners if owner.get("uid") != claim.uid]
    return {
        "metadata": {
            "resourceVersion": node.resource_version,
            "labels": {**claim.labels, names.REGISTERED: "true", names.SHARD: shard_of(node.name)},
            "annotations": {key: value for key, value in claim.annotations.items() if key not in NOT_ON_NODES},
            "ownerReferences": [*others, mine],
            "finalizers": [
                *(name for name in node.finalizers if name != names.TERMINATION_FINALIZER),
                names.TERMINATION_FINALIZER,
            ],
        },
        "spec": {"taints": [taint.to_kube() for taint in registered_taints(claim, node)]},
    }


def registered_taints(claim: NodeClaim, node: Node) -> tuple[Taint, ...]:
    """Return the node's taints after registration: without the unregistered taint, and with the claim's taints."""
    kept = tuple(taint for taint in node.taints if taint.key != names.UNREGISTERED)
    if node.labels.get(names.DO_NOT_SYNC_TAINTS) == "true":
        return kept
    wanted = (*claim.taints, *claim.startup_taints)
    return (*kept, *(taint for taint in wanted if not any(taint.matches(present) for present in kept)))
