"""Notes that plans from files ignore the windows of schedules (annotation ``joiner.dev/schedule``): a plan has no time
of day, so it counts the replicas outside of all windows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from joiner.names import SCHEDULE
from joiner.pools import InvalidManifest
from joiner.pools.replica_schedule import ReplicaSchedule

Manifest = Mapping[str, Any]


def describe_ignored_schedules(lists: Mapping[str, Sequence[Manifest]]) -> Iterator[InvalidManifest]:
    """Yield a note for each static pool and capacity buffer with a schedule, with the number that the plan counts."""
    static = [one for one in lists.get("nodepools", ()) if (one.get("spec") or {}).get("replicas") is not None]
    yield from _describe("NodePool", static)
    yield from _describe("CapacityBuffer", lists.get("capacitybuffers", ()))


def _describe(kind: str, manifests: Iterable[Manifest]) -> Iterator[InvalidManifest]:
    for one in manifests:
        metadata, spec = one["metadata"], one.get("spec") or {}
        text = (metadata.get("annotations") or {}).get(SCHEDULE)
        if text is None or not _opens(str(text)):
            continue
        name = (
            metadata["name"] if kind == "NodePool" else f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
        )
        counted = f"its spec.replicas ({spec['replicas']})" if spec.get("replicas") is not None else "its spec"
        remedy = f"the plan has no time of day: it counts {counted} and ignores the windows"
        yield InvalidManifest(f"{kind}/{name}", f"metadata.annotations[{SCHEDULE}]", str(text), remedy, "info")


def _opens(text: str) -> bool:
    """Return whether the schedule has a window that can begin; the reader of the object reports the others."""
    try:
        return ReplicaSchedule.parse(text).opens
    except ValueError:
        return False
