"""Detect other autoscalers and report them, with three small requests before every action."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube, Manifests
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.parallel_calls import call_all
from joiner.lifecycle.other_autoscalers import DEFINITIONS, LEASES, OtherAutoscaler, find_other_autoscalers
from joiner.names import MANAGED_BY
from joiner.reporting.events import Event, Subject
from joiner.reporting.other_autoscaler_events import report_other_autoscaler

OURS = f"{MANAGED_BY}=joiner"


class AutoscalerDetection:
    """Detection of other autoscalers in one cluster."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def detect(self, now: datetime) -> tuple[OtherAutoscaler, ...]:
        """Return all other autoscalers of the cluster at `now`. Raises KubeError; without a result, callers must not
        act."""
        return find_other_autoscalers(self._leases(), self._foreign_definitions(), now)

    def report(self, found: Iterable[OtherAutoscaler], *, at: datetime, instance: str) -> list[str]:
        """Write a Warning event on each NodePool and Provisioner; return what could not be written."""
        autoscalers = list(found)
        events = (
            [report_other_autoscaler(subject, other) for subject in self._pools() for other in autoscalers]
            if autoscalers
            else []
        )
        return publish_events(self._kube, events, at=at, instance=instance)

    def publish(self, events: Iterable[Event], *, at: datetime, instance: str) -> list[str]:
        """Write events about this cluster; return what could not be written."""
        return publish_events(self._kube, events, at=at, instance=instance)

    def _leases(self) -> Manifests:
        """Return the leases of all namespaces: Karpenter has used two."""
        lists = call_all(LEASES, lambda name: self._kube.list(kinds.LEASES, fields=f"metadata.name={name}"), KubeError)
        return [lease for found in lists for lease in found]

    def _foreign_definitions(self) -> list[str]:
        """Return the definitions that Joiner does not manage.

        If it manages all, this takes one request, of their metadata only, because definitions are long.
        """
        managed = {
            str(each["metadata"]["name"])
            for each in self._kube.list_metadata(kinds.CUSTOM_RESOURCE_DEFINITIONS, labels=OURS)
        }
        return [name for name in DEFINITIONS if name not in managed and self._is_there(name)]

    def _is_there(self, definition: str) -> bool:
        try:
            self._kube.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, definition)
        except NotFound:
            return False
        return True

    def _pools(self) -> Iterator[Subject]:
        for kind in kinds.POOLS:
            try:
                found: list[Any] = self._kube.list(kind)
            except KubeError:
                continue  # a current Karpenter has no Provisioners; its definitions are reported here
            for each in found:
                yield Subject(kind.api_version, kind.kind, each["metadata"]["name"], each["metadata"].get("uid", ""))
