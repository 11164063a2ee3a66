"""A node joins: which claim it belongs to, and what it carries from then on.

Source: Karpenter, core `pkg/controllers/nodeclaim/lifecycle/registration.go`. The kubelet may not set labels of
Kubernetes' own domains on itself (NodeRestriction), and does not know its owner: these are put on the Node when it is
first seen.

Its finalizer makes a deleted Node wait until it is drained and its instance is gone, whoever deleted it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Taint
from joiner.pools import NodeClaim

DO_NOT_SYNC_TAINTS: Final = "karpenter.sh/do-not-sync-taints"
NOT_ON_NODES: Final = frozenset({names.LEASE})  # annotations of a claim that say nothing about its node


@dataclass(frozen=True, slots=True)
class ClaimAndNode:
    """A launched claim and the node of its instance, if one has joined. `others` are nodes that claim the same
    instance.
    """

    claim: NodeClaim
    node: Node | None
    others: tuple[str, ...] = ()


def match_nodes(claims: Iterable[NodeClaim], nodes: Iterable[Node]) -> list[ClaimAndNode]:
    """Each claim with the node of its provider id, in the claims' order. Two nodes of one instance meet nobody: a
    person must look.
    """
    by_provider_id: dict[str, list[Node]] = {}
    for node in nodes:
        if node.provider_id:
            by_provider_id.setdefault(node.provider_id, []).append(node)
    meetings = []
    for claim in claims:
        found = by_provider_id.get(claim.provider_id, []) if claim.provider_id else []
        several = tuple(sorted(node.name for node in found)) if len(found) > 1 else ()
        meetings.append(ClaimAndNode(claim, found[0] if len(found) == 1 else None, several))
    return meetings


def is_registered(node: Node) -> bool:
    """Has the node been joined to its claim already?"""
    return node.labels.get(names.REGISTERED) == "true"


def joined_without_taint(node: Node) -> bool:
    """Did the node join without the taint that keeps pods off until it is ours? Its user data is not what Joiner
    wrote.
    """
    return not is_registered(node) and not node.has_taint(names.UNREGISTERED)


def registration_patch(claim: NodeClaim, node: Node, owners: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The merge patch that joins a node to its claim, `owners` being its present owner references.

    Lists are replaced by a merge patch, so it names the resourceVersion that they were read at.
    """
    mine = {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "name": claim.name,
        "uid": claim.uid,
        "blockOwnerDeletion": True,
    }
    others = [dict(owner) for owner in owners if owner.get("uid") != claim.uid]
    return {
        "metadata": {
            "resourceVersion": node.resource_version,
            "labels": {**claim.labels, names.REGISTERED: "true"},
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
    """The node's taints once it is registered: the guard is off, and those that the claim asks for are on."""
    kept = tuple(taint for taint in node.taints if taint.key != names.UNREGISTERED)
    if node.labels.get(DO_NOT_SYNC_TAINTS) == "true":
        return kept
    wanted = (*claim.taints, *claim.startup_taints)
    return (*kept, *(taint for taint in wanted if not any(taint.matches(present) for present in kept)))
