"""Write events, several at a time. An event that cannot be written does not stop the others."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import AlreadyExists, KubeError
from joiner.adapters.parallel_calls import call_each
from joiner.reporting.event_limits import EVENTS_AT_ONCE, limit_events
from joiner.reporting.events import Event


def publish_events(
    kube: Kube, events: Iterable[Event], *, at: datetime, instance: str, most: int = EVENTS_AT_ONCE
) -> list[str]:
    """Write events; many similar ones are combined into one. An event that exists already is not written again,
    and neither is a lasting one whose slot before has it.

    Args:
        kube: the cluster.
        events: the events.
        at: their time.
        instance: the execution that reports them.
        most: maximum number of events that are written.

    Returns:
        The errors of events that could not be written.
    """

    def write(event: Event) -> None:
        if not (event.lasting and _has_slot_before(kube, event, at, instance)):
            kube.create(kinds.CORE_EVENTS, event.to_kube(at, instance), namespace=event.namespace)

    answers = call_each(limit_events(events, most), write, KubeError)
    return [
        str(answer) for _, answer in answers if isinstance(answer, KubeError) and not isinstance(answer, AlreadyExists)
    ]


def _has_slot_before(kube: Kube, event: Event, at: datetime, instance: str) -> bool:
    """Return whether the event was written in the slot before. A dry run shows it, because the roles of functions may
    create events and not read them.
    """
    before = event.to_kube(at - timedelta(seconds=event.slot_seconds), instance)
    try:
        kube.create(kinds.CORE_EVENTS, before, namespace=event.namespace, dry_run=True)
    except AlreadyExists:
        return True
    except KubeError:  # a webhook of the cluster may refuse dry runs
        return False
    return False
