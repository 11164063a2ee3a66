"""Events of node classes that are being deleted while claims use them."""

from collections.abc import Iterable

from joiner.lifecycle.class_finalizers import describe_holders
from joiner.pools import NodeClaim, NodeClass
from joiner.reporting.events import Event, Subject


def report_held_classes(classes: Iterable[NodeClass], claims: Iterable[NodeClaim]) -> list[Event]:
    """Return one event for each class that is being deleted and has claims. Changed claims make no new event."""
    known = list(claims)
    return [
        Event(Subject.node_class(node_class), "NodeClaimsExist", "Delete", note, "Warning", news="NodeClaimsExist")
        for node_class in classes
        if node_class.deleting and node_class.kind != "Inline" and (note := describe_holders(node_class.key, known))
    ]
