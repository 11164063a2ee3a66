"""Nodes whose capacity reservation has ended: EC2 keeps the instance running and charges it on demand.

Claim and node get the labels of an on-demand node, as in Karpenter, so that plans count them at their price. A pool
that allows no on-demand nodes then finds the node drifted.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from joiner import names
from joiner.disruption.drift import ObservedInstance
from joiner.pools import NodeClaim
from joiner.pools.capacity_reservations import RESERVATION_LABELS

YOUNG: Final = timedelta(minutes=5)
"""Age below which an instance may be described before its reservation is visible."""

ON_DEMAND_LABELS: Final[Mapping[str, str | None]] = {
    names.CAPACITY_TYPE: names.ON_DEMAND,
    **dict.fromkeys(RESERVATION_LABELS),
}
"""The changed labels; None removes a label."""


def has_left_reservation(claim: NodeClaim, seen: ObservedInstance | None, now: datetime) -> bool:
    """Return whether the claim is labelled as reserved, and its instance runs in no reservation any more."""
    if seen is None or seen.reservation != "" or claim.deleting or claim.created is None:
        return False
    return claim.capacity_type == names.RESERVED and now - claim.created >= YOUNG


def relabel_claim(claim: NodeClaim) -> NodeClaim:
    """Return the claim with the labels of an on-demand node."""
    kept = {key: value for key, value in claim.labels.items() if key not in ON_DEMAND_LABELS}
    return replace(claim, labels={**kept, names.CAPACITY_TYPE: names.ON_DEMAND})
