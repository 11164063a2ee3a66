"""Keys of the table's items: `kind` is the partition, `id` is the item within it.

A role's access to the table is limited by ``dynamodb:LeadingKeys``, which is the kind. `joiner.adapters` writes the
items, state machines update some of them, and `infra` grants access to them; all three take the names from here.
"""

from collections.abc import Mapping
from typing import Any, Final

LEASE: Final = "LEASE"
LAUNCH: Final = "LAUNCH"
INSTANCE: Final = "INSTANCE"
ASSIGNMENT: Final = "ASSIGNMENT"
UNAVAILABLE: Final = "UNAVAILABLE"
BACKOFF: Final = "BACKOFF"
HELD: Final = "HELD"
WAVE: Final = "WAVE"
AWAITED: Final = "AWAITED"
RETIREMENT: Final = "RETIREMENT"
DISRUPTION: Final = "DISRUPTION"
PROPOSED: Final = "PROPOSED"
MOVED: Final = "MOVED"
DOORBELL: Final = "DOORBELL"
ANSWERED: Final = "ANSWERED"
EMPTY: Final = "EMPTY"
ABSENT: Final = "ABSENT"
IMPAIRED: Final = "IMPAIRED"
RECOMMENDED: Final = "RECOMMENDED"
INTERRUPTED: Final = "INTERRUPTED"
UNUSED: Final = "UNUSED"
CLUSTER: Final = "CLUSTER"
DRIFT: Final = "DRIFT"

# Ids of items that exist once
SCALE_UP: Final = "scale-up"  # of LEASE: the lease of scale-ups
SWEEP: Final = "sweep"  # of LEASE: the time of the next sweep
DISRUPT: Final = "disrupt"  # of LEASE: the execution that disrupts nodes
LAST_PROPOSAL: Final = "last"  # of PROPOSED
TOKEN: Final = "token"  # noqa: S105 - of DOORBELL: the item's id
PENDING_PODS: Final = "pods"  # of ANSWERED
BUFFER_NODES: Final = "buffers"  # of ANSWERED: the nodes with capacity for CapacityBuffers
LAST_DETECTION: Final = "last"  # of DRIFT
OF_DISRUPTIONS: Final = "disruption#"  # of BACKOFF: prefix of the key of a pool whose replacements failed
OF_VALIDATIONS: Final = "validation#"  # of BACKOFF: prefix of the key of a node class whose launches were tried
DESCRIBED: Final = "described"  # of CLUSTER


def item_key(kind: str, item_id: str) -> Mapping[str, Any]:
    """Return an item's key in the format of DynamoDB. In a state machine the id may be an expression.

    >>> item_key(LEASE, SCALE_UP)
    {'kind': {'S': 'LEASE'}, 'id': {'S': 'scale-up'}}
    """
    return {"kind": {"S": kind}, "id": {"S": item_id}}
