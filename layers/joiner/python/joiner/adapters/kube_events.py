"""Writing events: several at a time, and never in the way of what they tell about."""

from collections.abc import Iterable
from datetime import datetime

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import AlreadyExists, KubeError
from joiner.adapters.parallel import call_each
from joiner.reporting.event_limits import limit_events
from joiner.reporting.events import Event


def publish_events(kube: Kube, events: Iterable[Event], *, at: datetime, instance: str) -> list[str]:
    """Write events, like ones as one where there are many; returns what could not be told. One that was told already is not told again."""

    def write(event: Event) -> None:
        kube.create(kinds.EVENTS, event.to_kube(at, instance), namespace=event.namespace)

    answers = call_each(limit_events(events), write, KubeError)
    return [str(answer) for _, answer in answers if isinstance(answer, KubeError) and not isinstance(answer, AlreadyExists)]
