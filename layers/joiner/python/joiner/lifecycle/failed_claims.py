"""Claims that failed: their node never registered, is gone, or never became ready for pods.

No pods are planned for a failed claim and no execution awaits it. It counts against the limits of its pool until it is
retired, because its instance may cost money. A node that registers late is accepted for a while; after that it is
retired. The reason of the condition identifies a failed claim, not its status: a condition that is Unknown, absent or
False for another reason belongs to a node that boots.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from joiner.cluster import Node
from joiner.lifecycle.node_deadlines import LATE_REGISTRATION
from joiner.pools import NodeClaim

REGISTRATION_TIMEOUT: Final = "RegistrationTimeout"
NODE_GONE: Final = "NodeGone"
INITIALIZATION_TIMEOUT: Final = "InitializationTimeout"

CONDITION_OF_REASON: Final = {
    REGISTRATION_TIMEOUT: "Registered",
    NODE_GONE: "Registered",
    INITIALIZATION_TIMEOUT: "Initialized",
}
"""Reason -> the type of the condition with that reason."""

WITHOUT_NODE: Final = frozenset({REGISTRATION_TIMEOUT, NODE_GONE})
"""Reasons that are wrong once the node exists."""


def failure_reason(claim: NodeClaim) -> str:
    """Return the reason; empty if the claim has not failed.

    >>> from datetime import UTC, datetime
    >>> from joiner.pools import NodeClassRef
    >>> claim, noon = NodeClaim("a", NodeClassRef("EC2NodeClass", "default")), datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> failure_reason(claim), failure_reason(claim.with_condition("Registered", "False", "NodeGone", at=noon))
    ('', 'NodeGone')
    """
    found = (reason for reason, name in CONDITION_OF_REASON.items() if _says(claim, name, reason))
    return next(found, "")


def may_register_late(claim: NodeClaim, now: datetime) -> bool:
    """Return whether it was given up without a node, so recently that its node would still be accepted."""
    reason = failure_reason(claim)
    since = claim.conditions[CONDITION_OF_REASON[reason]].since if reason in WITHOUT_NODE else None
    return since is not None and now - since <= LATE_REGISTRATION and not claim.deleting


def find_late_claims(claims: Iterable[NodeClaim], nodes: Iterable[Node], now: datetime) -> frozenset[str]:
    """Return the names of the claims that were given up and whose nodes joined late and are accepted."""
    joined = {node.provider_id for node in nodes if node.provider_id and not node.retiring}
    return frozenset(claim.name for claim in claims if claim.provider_id in joined and may_register_late(claim, now))


def _says(claim: NodeClaim, name: str, reason: str) -> bool:
    condition = claim.conditions[name]
    return condition.status == "False" and condition.reason == reason
