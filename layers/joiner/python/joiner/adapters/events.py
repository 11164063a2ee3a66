"""Writing events: several at a time, and never in the way of what they tell about."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import AlreadyExists, KubeError
from joiner.adapters.parallel import each


class Tellable(Protocol):
    """Something that can be told as an event."""

    @property
    def namespace(self) -> str:
        """Where the event stands."""

    def to_kube(self, at: datetime, instance: str) -> Mapping[str, Any]:
        """The event's manifest."""


def tell(kube: Kube, events: Iterable[Tellable], *, at: datetime, instance: str) -> list[str]:
    """Write events; returns what could not be told. One that was told already is not told again."""

    def write(event: Tellable) -> None:
        kube.create(kinds.EVENTS, event.to_kube(at, instance), namespace=event.namespace)

    answers = each(events, write, KubeError)
    return [str(answer) for _, answer in answers if isinstance(answer, KubeError) and not isinstance(answer, AlreadyExists)]
