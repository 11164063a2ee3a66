"""Standalone claims: NodeClaims and Machines that a user created, and not a scale-up.

A standalone claim is launched as it is: its requirements, requests, taints and class are those of its node. Until its
instance is launched, the planner treats it as a static pool of one node. Its label ``karpenter.sh/nodepool`` may name a
pool, in which the node then counts; a claim without the label belongs to none, and nothing disrupts its node
voluntarily. Source: Karpenter, core `pkg/controllers/nodeclaim/lifecycle`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.pools.capacity_reservations import RESERVATION_LABELS
from joiner.pools.label_rules import is_well_known
from joiner.pools.node_claim import NodeClaim
from joiner.pools.node_pool import NodeClassRef, NodePool

DECIDED: Final = (names.TENANCY, *RESERVATION_LABELS)
"""Labels of a claim that its plan decides."""

UNOWNED: Final = NodePool("", NodeClassRef("EC2NodeClass", ""), claim="claims without a pool")
"""The pool whose defaults hold for the nodes of claims without a pool, where a rule needs one."""


def awaits_launch(claim: NodeClaim) -> bool:
    """Return whether it is a standalone claim without an instance. A claim that an execution wrote or rebuilt is none.

    >>> mine = NodeClaim("mine", NodeClassRef("EC2NodeClass", "default"))
    >>> awaits_launch(mine), awaits_launch(replace(mine, annotations={names.EXECUTION: "sweep-1"}))
    (True, False)
    """
    written = claim.lease or names.EXECUTION in claim.annotations
    return not (written or claim.provider_id or claim.launched or claim.deleting)


def may_be_launched_by_holder(claim: NodeClaim) -> bool:
    """Return whether the execution that holds the lease, if there is one, may launch the claim at any moment, although
    it may be deleted meanwhile: a standalone claim with the finalizer that a launch needs.

    >>> mine = NodeClaim("mine", NodeClassRef("EC2NodeClass", "default"), finalizers=(names.TERMINATION_FINALIZER,))
    >>> may_be_launched_by_holder(mine), may_be_launched_by_holder(replace(mine, finalizers=()))
    (True, False)
    """
    return names.TERMINATION_FINALIZER in claim.finalizers and awaits_launch(replace(claim, deletion=None))


def find_claims_to_launch(claims: Iterable[NodeClaim], launching: Collection[str]) -> list[NodeClaim]:
    """Return the standalone claims without a launch; `launching` names those whose launch has no result yet."""
    return [claim for claim in claims if awaits_launch(claim) and claim.name not in launching]


def adopt_claim(claim: NodeClaim, labels: Mapping[str, str]) -> NodeClaim:
    """Return a standalone claim as it is before its launch: with the finalizer that keeps it until its instance is
    terminated, and the labels that its plan decides.

    A claim that was copied from another one has the labels of that node: its tenancy and its reservation do not count.
    """
    others = tuple(name for name in claim.finalizers if name != names.TERMINATION_FINALIZER)
    node_class = {names.NODECLASS: claim.class_ref.name} if claim.class_ref.kind == "EC2NodeClass" else {}
    return replace(
        claim,
        labels={**labels, **{key: claim.labels[key] for key in claim.labels if key not in DECIDED}, **node_class},
        finalizers=(*others, names.TERMINATION_FINALIZER),
    )


def build_claim_pool(claim: NodeClaim, pool: NodePool | None) -> NodePool:
    """Return the static pool of one node that stands for a claim; `pool` is the one that its label names.

    Labels that the instance decides do not count: those of a claim that a user copied are of another node.
    """
    return NodePool(
        name=claim.pool,
        class_ref=claim.class_ref,
        kind="Provisioner" if claim.kind == "Machine" else "NodePool",
        requirements=claim.requirements,
        min_values=claim.min_values,
        labels={key: value for key, value in claim.labels.items() if key not in names.OURS and not is_well_known(key)},
        annotations=claim.annotations,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        kubelet=pool.kubelet if pool is not None else None,
        replicas=1,
        claim=claim.key,
        requests=claim.requests,
    )
