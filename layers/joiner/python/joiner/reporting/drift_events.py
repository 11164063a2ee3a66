"""Events of drift: a claim that is drifted, or not any more, or whose capacity reservation has ended."""

from joiner import names
from joiner.disruption.drift import DRIFTED
from joiner.pools import NodeClaim, NodePool
from joiner.reporting.events import Event, Subject


def report_drift(claim: NodeClaim, pool: NodePool | None) -> list[Event]:
    """Return the event of a changed condition Drifted. If many claims of a pool have the same news, the pool gets one
    event instead.
    """
    condition = claim.conditions[DRIFTED]
    owner = Subject.pool(pool) if pool is not None else None
    if not condition.true:
        note = "No longer drifted: it equals a node that would be launched now"
        return [Event(Subject.claim(claim), "NotDrifted", "DetectDrift", note, news="NotDrifted", owner=owner)]
    note = f"{condition.reason}: {condition.message}"
    if pool is not None and not pool.disruption.settings.drift.replace:
        note += " (its pool only detects drift)"
    return [Event(Subject.claim(claim), DRIFTED, "DetectDrift", note, news=condition.reason, owner=owner)]


def report_ended_reservation(claim: NodeClaim) -> Event:
    """Return the event of a claim whose instance runs in no capacity reservation any more.

    ``claim`` has the labels from before.
    """
    reservation = claim.labels.get(names.RESERVATION, "")
    note = (
        f"The capacity reservation {reservation} of instance {claim.instance_id} has ended: the instance runs on, "
        "and is charged on demand"
    )
    return Event(Subject.claim(claim), "CapacityReservationEnded", "DetectDrift", note, news="CapacityReservationEnded")
