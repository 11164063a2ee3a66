"""Rebuild the missing claim of an existing node, from the node and its pool.

Without a claim, the node is not drained or counted, and its instance is not terminated; an instance with a node is
never garbage. Data that only the claim had is lost: its launch, its price, and its creation time, so its expiration
starts again.
"""

from datetime import datetime
from typing import Final

from joiner import names
from joiner.cluster import Node, Requirements
from joiner.lifecycle.initialization import is_initialized
from joiner.lifecycle.registration import is_registered
from joiner.pools import NodeClaim, NodeClassRef, NodePool, build_claim_name
from joiner.pools.node_claim import ClaimKind
from joiner.pools.node_pool import pool_key_of

OF_THE_NODE: Final = frozenset({names.HOSTNAME, names.REGISTERED, names.INITIALIZED, names.EXCLUDE_FROM_LOAD_BALANCERS})
DECIDED: Final = (names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE, names.ARCH, names.OS)


def rebuilt_claim(
    node: Node, pool: NodePool | None, name: str, *, at: datetime, execution: str = ""
) -> NodeClaim | None:
    """Return the claim of `node`, under its former `name` if known; None if its class is unknown.

    The name of the `execution` that rebuilds it distinguishes it from a claim of a user, which has no instance yet.
    """
    kind: ClaimKind = "Machine" if names.PROVISIONER in node.labels else "NodeClaim"
    _, _, pool_name = pool_key_of(node).partition("/")
    class_ref = pool.class_ref if pool is not None else _class_of(node, kind, pool_name)
    if not node.provider_id or class_ref is None or not class_ref.name:
        return None
    claim = NodeClaim(
        name=name or build_claim_name(pool_name or class_ref.name, node.instance_id[-7:]),
        kind=kind,
        class_ref=class_ref,
        pool=pool_name,
        pool_uid=pool.uid if pool is not None else "",
        requirements=Requirements.from_labels({key: node.labels[key] for key in DECIDED if key in node.labels}),
        taints=pool.taints if pool is not None else (),
        labels={key: value for key, value in node.labels.items() if key not in OF_THE_NODE},
        annotations={names.EXECUTION: execution} if execution else {},
        expire_after=pool.expire_after if pool is not None else None,
        termination_grace_period=pool.termination_grace_period if pool is not None else None,
        provider_id=node.provider_id,
        node_name=node.name,
        capacity=node.capacity,
        allocatable=node.allocatable,
    )
    return as_joined(claim, node, at=at)


def as_joined(claim: NodeClaim, node: Node, *, at: datetime) -> NodeClaim:
    """Return the claim with the conditions that its node shows."""
    claim = claim.with_condition("Launched", "True", "Launched", at=at)
    if is_registered(node):
        claim = claim.as_registered(node.name, at=at)
    return claim.as_initialized(at=at) if is_initialized(node) else claim


def _class_of(node: Node, kind: ClaimKind, pool: str) -> NodeClassRef | None:
    if kind == "Machine":
        return NodeClassRef("Inline", pool)
    name = node.labels.get(names.NODECLASS, "")
    return NodeClassRef("EC2NodeClass", name) if name else None
