"""Reads the annotation of a pool that sets the time zone of the schedules of its disruption budgets."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from joiner import names
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.time_zones import DEFAULT_TIME_ZONE, read_time_zone


def read_budget_time_zone(annotations: Mapping[str, Any], notes: ManifestProblems) -> tzinfo | None:
    """Return the time zone in which the schedules of the budgets count, UTC without the annotation.

    None for an unknown one: then every budget with a schedule is active, and the annotation is a warning.
    """
    value = annotations.get(names.BUDGET_TIME_ZONE)
    if value is None:
        return DEFAULT_TIME_ZONE
    zone = read_time_zone(value)
    if zone is None:
        remedy = (
            'no such time zone is known, so every budget with a schedule is active; use a name such as "Europe/Oslo"'
        )
        notes.note(f"metadata.annotations[{names.BUDGET_TIME_ZONE}]", value, remedy, "warning")
    return zone
