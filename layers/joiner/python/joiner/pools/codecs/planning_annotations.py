"""Reads the annotations of a pool about plans (``PoolPlanning``).

An invalid value is a warning and has no effect.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from joiner import names
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.pool_planning import BlastRadius, PoolPlanning
from joiner.pools.replica_schedule import ReplicaSchedule
from joiner.pools.suggestions import suggest_nearest

DOLLARS: Final = re.compile(r"\d{1,3}(\.\d{1,8})?")
SHARE_OR_VCPUS: Final = re.compile(r"(?P<share>100|[1-9]\d?)%|(?P<vcpus>[1-9]\d{0,3})")
CAPACITY_MIX: Final = re.compile(r"spot=(?P<share>100|\d{1,2})%")
FULL_BURST: Final = "full"
BURSTABLE: Final = ("baseline", FULL_BURST)


def read_pool_planning(manifest: Mapping[str, Any], notes: ManifestProblems) -> PoolPlanning:
    """Return what the annotations of a pool set for plans."""
    annotations = (manifest.get("metadata") or {}).get("annotations")
    given: Mapping[str, Any] = annotations if isinstance(annotations, Mapping) else {}

    def wrong(name: str, remedy: str) -> None:
        notes.note(f"metadata.annotations[{name}]", given[name], f"it has no effect; {remedy}", "warning")

    price, burst, radius, mix = (
        None if given.get(name) is None else str(given[name])
        for name in (names.NODE_OVERHEAD_PRICE, names.BURSTABLE, names.BLAST_RADIUS, names.CAPACITY_MIX)
    )
    if price is not None and not DOLLARS.fullmatch(price):
        wrong(names.NODE_OVERHEAD_PRICE, 'give US$ an hour, such as "0.01"')
        price = None
    if burst is not None and burst not in BURSTABLE:
        wrong(names.BURSTABLE, f"use baseline or full{suggest_nearest(burst, BURSTABLE)}")
    limit = SHARE_OR_VCPUS.fullmatch(radius or "")
    if radius is not None and limit is None:
        wrong(names.BLAST_RADIUS, 'give a percentage of a workload\'s pods ("25%") or a number of vCPUs ("32")')
    spot = CAPACITY_MIX.fullmatch(mix or "")
    if mix is not None and spot is None:
        wrong(names.CAPACITY_MIX, 'give the share of spot nodes, such as "spot=70%"')
    if spot is not None and _is_static(manifest):
        wrong(names.CAPACITY_MIX, "a pool with spec.replicas gets its cheapest offering; set its requirements instead")
        spot = None
    return PoolPlanning(
        None if price is None else float(price),
        burst == FULL_BURST,
        BlastRadius(
            int(limit["share"]) / 100 if limit and limit["share"] else None,
            int(limit["vcpus"]) if limit and limit["vcpus"] else None,
        ),
        int(spot["share"]) / 100 if spot else None,
        _read_schedule(manifest, given, notes),
    )


def _is_static(manifest: Mapping[str, Any]) -> bool:
    return (manifest.get("spec") or {}).get("replicas") is not None


def _read_schedule(
    manifest: Mapping[str, Any], given: Mapping[str, Any], notes: ManifestProblems
) -> ReplicaSchedule | None:
    """Return the schedule of a static pool, and note its windows that can never begin."""
    value = given.get(names.SCHEDULE)
    if value is None:
        return None

    def wrong(remedy: str) -> None:
        notes.note(f"metadata.annotations[{names.SCHEDULE}]", value, remedy, "warning")

    if not _is_static(manifest):
        wrong("it has no effect; only a pool with spec.replicas has a schedule; set replicas, or remove it")
        return None
    try:
        schedule = ReplicaSchedule.parse(str(value))
    except ValueError as reason:
        wrong(f'it has no effect; {reason}; write windows such as "Europe/Oslo: 0 8 * * mon-fri for 10h = 6"')
        return None
    for idle in schedule.describe_idle_windows():
        wrong(idle)
    return schedule
