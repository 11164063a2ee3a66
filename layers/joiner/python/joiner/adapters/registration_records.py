"""Record in the status of NodePools whether their launched nodes registered."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.kube_patches import patch_latest
from joiner.adapters.parallel_calls import call_each
from joiner.pools import NodeClaim
from joiner.pools.registration_health import RegistrationOutcome, add_registrations
from joiner.reporting.events import Event
from joiner.reporting.registration_health_events import report_registration_health

NODEPOOL_KEY: Final = "NodePool/"


def record_registrations(
    kube: Kube, outcomes: Iterable[tuple[NodeClaim, str]], at: datetime
) -> tuple[list[Event], list[str]]:
    """Add the outcomes of claims to their NodePools; return the events of pools, and what could not be written.

    A Provisioner has no such condition. What is not written here is not repeated: the condition is advice for people.
    """
    by_pool: dict[str, list[RegistrationOutcome]] = {}
    for claim, outcome in outcomes:
        if claim.pool_key.startswith(NODEPOOL_KEY):
            by_pool.setdefault(claim.pool, []).append(RegistrationOutcome.of(claim, outcome))

    def record(each: tuple[str, list[RegistrationOutcome]]) -> list[Event]:
        return _record_one(kube, each[0], each[1], at)

    answers = call_each(by_pool.items(), record, KubeError)
    events = [event for _, answer in answers if not isinstance(answer, KubeError) for event in answer]
    return events, [f"NodePool/{pool}: {answer}" for (pool, _), answer in answers if isinstance(answer, KubeError)]


def _record_one(kube: Kube, pool: str, outcomes: list[RegistrationOutcome], at: datetime) -> list[Event]:
    """Return the events of the version that was patched."""
    events: list[Event] = []

    def find_changes(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
        changes = add_registrations(manifest, outcomes, at)
        events[:] = report_registration_health(manifest, changes) if changes is not None else []
        return changes

    patch_latest(kube, kinds.NODEPOOLS, pool, find_changes, subresource="status")
    return events
