"""Claims that are given up: their node never came, is gone, or never took pods.

They keep no room for pods and nobody awaits them, but they count against limits until they are retired: their instances may cost money.
Told by the reason, not by the status: a condition that is Unknown, absent or False for another reason is that of a node that boots.
"""

from typing import Final

from joiner.pools import NodeClaim

REGISTRATION_TIMEOUT: Final = "RegistrationTimeout"
NODE_GONE: Final = "NodeGone"
INITIALIZATION_TIMEOUT: Final = "InitializationTimeout"

CONDITION: Final = {REGISTRATION_TIMEOUT: "Registered", NODE_GONE: "Registered", INITIALIZATION_TIMEOUT: "Initialized"}
"""Reason -> the condition that says it."""


def given_up_for(claim: NodeClaim) -> str:
    """The reason, or empty.

    >>> from datetime import UTC, datetime
    >>> from joiner.pools import ClassRef
    >>> claim, noon = NodeClaim("a", ClassRef("EC2NodeClass", "default")), datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> given_up_for(claim), given_up_for(claim.with_condition("Registered", "False", "NodeGone", at=noon))
    ('', 'NodeGone')
    """
    found = (reason for reason, name in CONDITION.items() if _says(claim, name, reason))
    return next(found, "")


def _says(claim: NodeClaim, name: str, reason: str) -> bool:
    condition = claim.conditions[name]
    return condition.status == "False" and condition.reason == reason
