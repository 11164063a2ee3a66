"""CapacityBuffers with the size that their schedules (annotation ``joiner.dev/schedule``) set now."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from joiner.names import SCHEDULE
from joiner.pools.replica_schedule import ReplicaSchedule

Manifest = Mapping[str, Any]


def apply_buffer_schedules(lists: Mapping[str, Sequence[Manifest]], now: datetime) -> dict[str, Sequence[Manifest]]:
    """Return the lists with the replicas that the schedules of buffers set at `now`.

    While a window is open, its number replaces ``replicas`` and ``percentage``; ``limits`` still hold.

    >>> annotations = {"joiner.dev/schedule": "0 8 * * * for 2h = 6"}
    >>> spare = {"metadata": {"name": "spare", "annotations": annotations}, "spec": {"replicas": 1}}
    >>> moment = datetime.fromisoformat("2026-11-23T09:00:00+00:00")
    >>> apply_buffer_schedules({"capacitybuffers": [spare]}, moment)["capacitybuffers"][0]["spec"]
    {'replicas': 6}
    """
    if not lists.get("capacitybuffers"):
        return dict(lists)
    return {**lists, "capacitybuffers": [_at(buffer, now) for buffer in lists["capacitybuffers"]]}


def _at(buffer: Manifest, now: datetime) -> Manifest:
    text = (buffer["metadata"].get("annotations") or {}).get(SCHEDULE)
    try:
        scheduled = ReplicaSchedule.parse(str(text)).replicas_at(now) if text is not None else None
    except ValueError:  # the buffer reports it
        scheduled = None
    if scheduled is None:
        return buffer
    spec = {name: value for name, value in (buffer.get("spec") or {}).items() if name != "percentage"}
    return {**buffer, "spec": {**spec, "replicas": scheduled}}
