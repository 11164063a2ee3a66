"""Time limits for each step of a node's start, and for the execution that awaits the node."""

from datetime import datetime, timedelta
from typing import Final

from joiner.pools import NodeClaim
from joiner.pools.timestamps import parse_timestamp

REGISTRATION: Final = timedelta(minutes=15)
"""From launched to registered; the same as Karpenter's registrationTimeout."""

REGISTRATION_MINUTES: Final = int(REGISTRATION.total_seconds() // 60)

LATE_REGISTRATION: Final = timedelta(minutes=15)
"""After a claim is given up: a node that joins within this time is accepted, a later one is retired."""

INITIALIZATION: Final = timedelta(minutes=15)
"""From registered to initialized; a startup taint or a device that takes longer needs a person."""

INITIALIZATION_MINUTES: Final = int(INITIALIZATION.total_seconds() // 60)

DEVICES_AND_TAINTS: Final = timedelta(minutes=2)
"""From registered to the registration of its devices and the removal of its startup taints; what takes longer is
reported."""

CLOSED_FOR_BINDING: Final = timedelta(seconds=10)
"""Maximum time for which a node that may take pods stays closed for Joiner's own bindings."""

CLOSED_FOR_THE_WAVE: Final = timedelta(seconds=5)
"""Time after a node became Ready in which it stays closed, with its pods, while other planned pods wait for nodes of
the same wave: those that boot, join, or are still being launched. A node that opens makes the scheduler retry each of
these pods without success, which takes longer than to bind them.
"""

CLOSED_TO_OTHER_PODS: Final = timedelta(seconds=30)
"""Maximum time for which it stays closed to a pod that fits here and whose own node boots.

Nodes of one plan become ready within about this time of each other.
"""

CLOSED_TO_PREEMPTION: Final = timedelta(minutes=2)
"""Maximum time for which it stays closed to a pod of higher priority that would preempt pods here and whose own node
boots; about the time of a boot.
"""

PLANNED_WITHIN: Final = timedelta(seconds=20)
"""A pod younger than this may lack a node only because no plan has seen it: the time of two scale-ups until they
launch.
"""

CLOSED_AT_MOST: Final = timedelta(minutes=5)
"""No node is closed for longer, regardless of its claim."""

WATCHED_FOR: Final = timedelta(minutes=2)
"""How long an execution that awaits nodes counts as running after its last check. It checks its wave every few seconds;
if it has not for this long, it has stopped, and the sweep finds its claims again.
"""


def registration_deadline(claim: NodeClaim) -> datetime | None:
    """Return when a claim that waits for its node is given up; None for a claim that does not wait."""
    launched = claim.conditions["Launched"]
    since = launched.since or claim.created
    return since + REGISTRATION if launched.true and not claim.registered and since is not None else None


def registration_timed_out(claim: NodeClaim, now: datetime) -> bool:
    """Return whether a launched claim has waited too long for its node."""
    deadline = registration_deadline(claim)
    return deadline is not None and now > deadline


def initialization_timed_out(claim: NodeClaim, now: datetime) -> bool:
    """Return whether a registered claim has waited too long for its node to take pods."""
    registered = claim.conditions["Registered"]
    return (
        registered.true
        and not claim.initialized
        and registered.since is not None
        and now - registered.since > INITIALIZATION
    )


def initialization_overdue(claim: NodeClaim, now: datetime) -> bool:
    """Return whether a registered node has had the time in which device plug-ins register their devices and startup
    taints are removed."""
    registered = claim.conditions["Registered"]
    return registered.true and registered.since is not None and now - registered.since > DEVICES_AND_TAINTS


def closed_too_long(node_created: str, now: datetime) -> bool:
    """Return whether the filling taint must be removed although the node never became ready for pods."""
    created = parse_timestamp(node_created)
    return created is not None and now - created > CLOSED_AT_MOST


def binding_timed_out(initialized_since: datetime | None, now: datetime) -> bool:
    """Return whether the time for Joiner's own bindings is over, so that the node opens even if bindings failed."""
    return initialized_since is not None and now - initialized_since > CLOSED_FOR_BINDING


def may_open_before_others(initialized_since: datetime | None, now: datetime) -> bool:
    """Return whether the node opens even if planned pods wait for other nodes, and none of them fits here."""
    return initialized_since is not None and now - initialized_since > CLOSED_FOR_THE_WAVE


def opens_before_others_at(initialized_since: datetime | None) -> datetime | None:
    """Return from when on the node opens even if planned pods wait for other nodes; None if that is unknown."""
    return initialized_since + CLOSED_FOR_THE_WAVE if initialized_since is not None else None


def may_take_other_pods(initialized_since: datetime | None, now: datetime) -> bool:
    """Return whether pods have waited long enough for their own nodes, so that they may use free resources here."""
    return initialized_since is not None and now - initialized_since > CLOSED_TO_OTHER_PODS


def may_be_preempted(initialized_since: datetime | None, now: datetime) -> bool:
    """Return whether a pod of higher priority has waited long enough for its own node, so that it may preempt pods
    here.
    """
    return initialized_since is not None and now - initialized_since > CLOSED_TO_PREEMPTION
