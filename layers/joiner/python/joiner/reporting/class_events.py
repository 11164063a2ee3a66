"""Events of node classes that are being deleted while claims use them, and of their pools."""

from collections.abc import Iterable
from typing import Final

from joiner.lifecycle.class_finalizers import describe_holders
from joiner.pools import NodeClaim, NodeClass, NodePool
from joiner.pools.absent_classes import explain_absent_class
from joiner.reporting.events import Event, Subject

WAITING: Final = "WaitingOnNodeClaimTermination"
"""Karpenter's reason."""


def report_deleted_classes(
    classes: Iterable[NodeClass], claims: Iterable[NodeClaim], pools: Iterable[NodePool]
) -> list[Event]:
    """Return one event for each class that is being deleted and has claims, and one for each pool of a class that is
    being deleted. Changed claims make no new event."""
    known = list(claims)
    deleted = {each.key: each for each in classes if each.deleting and each.kind != "Inline"}
    of_classes = [
        Event(Subject.node_class(each), WAITING, "Delete", note, "Warning", news=WAITING)
        for each in deleted.values()
        if (note := describe_holders(each.key, known))
    ]
    affected = [(pool, deleted[pool.class_ref.key]) for pool in pools if pool.class_ref.key in deleted]
    return of_classes + [_report_pool(pool, node_class, known) for pool, node_class in affected]


def _report_pool(pool: NodePool, deleted: NodeClass, claims: Iterable[NodeClaim]) -> Event:
    count = sum(claim.class_ref.key == deleted.key for claim in claims)
    reason, note = explain_absent_class(deleted.key, deleted, (), claims=count)
    return Event(Subject.pool(pool), reason, "Delete", note, "Warning", news=f"{reason} {deleted.key}")
