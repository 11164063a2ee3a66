"""Reads the annotations of a pool that limit its consolidation (``ConsolidationLimits``)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from joiner import names
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.consolidation_limits import LONGEST_COOL_DOWN, ConsolidationLimits
from joiner.pools.durations import parse_duration

ONLY_EMPTY: Final = "; until then, only empty nodes of this pool are removed"
TOO_LONG: Final = "give at most 24h: a longer cool-down has the effect of 24h, for which moves are remembered"


def read_consolidation_limits(manifest: Mapping[str, Any], notes: ManifestProblems) -> ConsolidationLimits:
    """Return the limits in the annotations of a pool's manifest. An invalid value, and a cool-down that is too long,
    are noted as warnings."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    read: dict[str, Any] = {}
    for annotation, (name, parse, remedy) in ANNOTATIONS.items():
        if annotation not in annotations:
            continue
        try:
            read[name] = parse(str(annotations[annotation]))
        except ValueError:
            read["unreadable"] = True
            notes.note(f"metadata.annotations[{annotation}]", annotations[annotation], remedy + ONLY_EMPTY, "warning")
    if read.get("workload_cool_down", 0) > LONGEST_COOL_DOWN:
        read["workload_cool_down"] = LONGEST_COOL_DOWN
        where = f"metadata.annotations[{names.WORKLOAD_COOL_DOWN}]"
        notes.note(where, annotations[names.WORKLOAD_COOL_DOWN], TOO_LONG, "warning")
    return ConsolidationLimits(**read)


def _dollars(text: str) -> float:
    amount = float(text)
    if not 0 <= amount < float("inf"):
        raise ValueError(text)
    return amount


def _percent(text: str) -> float:
    amount = float(text.removesuffix("%"))
    if not 0 <= amount <= 100:
        raise ValueError(text)
    return amount


def _seconds(text: str) -> int:
    seconds = parse_duration(text)
    if seconds is None:
        raise ValueError(text)
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


DURATION: Final = 'give a duration in hours, minutes and seconds such as "1h30m"'
ANNOTATIONS: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    names.LEAST_SAVING: ("least_saving_per_hour", _dollars, 'give dollars an hour such as "0.05"'),
    names.LEAST_SAVING_PERCENT: ("least_saving_percent", _percent, 'give a percentage from 0 to 100 such as "10"'),
    names.LEAST_NODE_AGE: ("least_node_age", _seconds, DURATION),
    names.MOST_EVICTIONS: ("evictions_per_day", _count, 'give a whole number such as "200"'),
    names.WORKLOAD_COOL_DOWN: ("workload_cool_down", _seconds, f"{DURATION}, at most 24h"),
    names.SPOT_TO_SPOT: ("spot_to_spot", _truth, 'use "true" or "false"'),
    names.SPOT_TO_SPOT_TYPES: ("spot_to_spot_least_types", _count, 'give a whole number such as "15"'),
}
"""Annotation -> field of ``ConsolidationLimits``, how its text is read, and the remedy for an invalid one."""
