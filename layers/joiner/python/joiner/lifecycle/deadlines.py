"""How long each step of a node's start may take."""

from datetime import datetime, timedelta
from typing import Final

from joiner.pools import NodeClaim
from joiner.pools.timestamps import parse_timestamp

REGISTRATION: Final = timedelta(minutes=15)
"""From launched to registered; as Karpenter's registrationTimeout."""

LATE_REGISTRATION: Final = timedelta(minutes=15)
"""From the giving up of a claim: a node that comes until then is taken in after all, a later one goes."""

INITIALIZATION: Final = timedelta(minutes=15)
"""From registered to initialized; a start-up taint or a device that takes longer needs a person."""

CLOSED_FOR_BINDING: Final = timedelta(seconds=10)
"""A node that may take pods stays closed for our own placing no longer than this."""

CLOSED_TO_OTHER_PODS: Final = timedelta(seconds=30)
"""How long it stays closed to a pod whose own node boots and which would fit in here. Nodes of one plan are ready that
far apart.
"""

CLOSED_TO_PREEMPTION: Final = timedelta(minutes=2)
"""How long it stays closed to a more important pod whose own node boots, and which would push out what runs here. As
long as a boot.
"""

PLANNED_WITHIN: Final = timedelta(seconds=20)
"""A pod younger than this may have no node yet only because no plan has seen it: as long as two scale-ups take until
they launch.
"""

CLOSED_AT_MOST: Final = timedelta(minutes=5)
"""No node is closed for longer, whatever became of it."""


def registration_deadline(claim: NodeClaim) -> datetime | None:
    """When a claim that waits for its node is given up; None for one that does not wait."""
    launched = claim.conditions["Launched"]
    since = launched.since or claim.created
    return since + REGISTRATION if launched.true and not claim.registered and since is not None else None


def registration_timed_out(claim: NodeClaim, now: datetime) -> bool:
    """Has a launched claim waited too long for its node?"""
    deadline = registration_deadline(claim)
    return deadline is not None and now > deadline


def initialization_timed_out(claim: NodeClaim, now: datetime) -> bool:
    """Has a registered claim waited too long for its node to take pods?"""
    registered = claim.conditions["Registered"]
    return (
        registered.true
        and not claim.initialized
        and registered.since is not None
        and now - registered.since > INITIALIZATION
    )


def closed_too_long(node_created: str, now: datetime) -> bool:
    """Must the filling taint go although the node never got as far as taking pods?"""
    created = parse_timestamp(node_created)
    return created is not None and now - created > CLOSED_AT_MOST


def binding_timed_out(initialized_since: datetime | None, now: datetime) -> bool:
    """Has our own placing had its time, so that the node opens even with bindings that failed?"""
    return initialized_since is not None and now - initialized_since > CLOSED_FOR_BINDING


def may_take_other_pods(initialized_since: datetime | None, now: datetime) -> bool:
    """Have pods waited long enough for their own nodes, so that they may take what is left here?"""
    return initialized_since is not None and now - initialized_since > CLOSED_TO_OTHER_PODS


def may_be_preempted(initialized_since: datetime | None, now: datetime) -> bool:
    """Has a more important pod waited long enough for its own node, so that it may take this one?"""
    return initialized_since is not None and now - initialized_since > CLOSED_TO_PREEMPTION
