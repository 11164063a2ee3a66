"""Reads the annotations of a NodePool or a Provisioner that set how its nodes are disrupted.

An annotation whose value is not valid has no effect and is a warning: the pool still launches nodes. The exception is
an unknown time zone of the budgets (``budget_time_zone``).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner import names
from joiner.pools.codecs.budget_time_zone import read_budget_time_zone
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import PLACING_VALUES
from joiner.pools.disruption_settings import (
    REPAIR_TOLERANCES,
    DisruptionSettings,
    DriftSettings,
    ExpirationSettings,
    RepairSettings,
)
from joiner.pools.durations import read_duration
from joiner.pools.suggestions import suggest_nearest

SHARE: Final = re.compile(r"(100|[0-9]{1,2})%|[0-9]+")
REBALANCE_CHOICES: Final = ("ignore", "replace", "drain")
PERCENT: Final = re.compile(r"(100|[0-9]{1,2})%")


def read_disruption_settings(manifest: Mapping[str, Any], notes: ManifestProblems) -> DisruptionSettings:
    """Return what the annotations of a pool set."""
    return _Annotations((manifest.get("metadata") or {}).get("annotations"), notes).read()


class _Annotations:
    """The annotations of one pool. Each method reads one of them, and notes what is wrong with its value."""

    def __init__(self, annotations: object, notes: ManifestProblems) -> None:
        self._annotations: Mapping[str, Any] = annotations if isinstance(annotations, Mapping) else {}
        self._notes = notes

    def read(self) -> DisruptionSettings:
        """Return the settings; values that are not valid are replaced by the defaults."""
        self._choice(names.PLACING, PLACING_VALUES)  # read when a node is launched
        drift, expiration = DriftSettings(), ExpirationSettings()
        return DisruptionSettings(
            time_zone=read_budget_time_zone(self._annotations, self._notes),
            drift=DriftSettings(
                replace=self._choice(names.DRIFT, ("replace", "detect")) != "detect",
                canary=self._matching(names.DRIFT_CANARY, SHARE, 'a number ("2") or a percentage ("10%")')
                or drift.canary,
                canary_seconds=self._seconds(names.DRIFT_CANARY_TIME, drift.canary_seconds),
            ),
            expiration=ExpirationSettings(
                graceful=self._choice(names.EXPIRATION, ("forceful", "graceful")) == "graceful",
                spread=int(
                    (self._matching(names.EXPIRATION_SPREAD, PERCENT, 'a percentage ("10%")') or "").rstrip("%")
                    or expiration.spread
                ),
            ),
            repair=RepairSettings(
                enabled=self._choice(names.NODE_REPAIR, ("enabled", "disabled")) != "disabled",
                tolerances=self._tolerances(),
            ),
            rebalance=self._choice(names.REBALANCE, REBALANCE_CHOICES),
        )

    def _wrong(self, name: str, remedy: str) -> None:
        self._notes.note(f"metadata.annotations[{name}]", self._annotations[name], remedy, "warning")

    def _choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of the choices; the first one is the default."""
        value = self._annotations.get(name)
        if value in choices:
            return str(value)
        if value is not None:
            known = f"{', '.join(choices[:-1])} or {choices[-1]}"
            self._wrong(name, f"it has no effect; use {known}{suggest_nearest(str(value), choices)}")
        return choices[0]

    def _matching(self, name: str, pattern: re.Pattern[str], wanted: str) -> str:
        value = self._annotations.get(name)
        if value is None:
            return ""
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        self._wrong(name, f"it has no effect; give {wanted}")
        return ""

    def _seconds(self, name: str, default: int) -> int:
        value = self._annotations.get(name)
        seconds = read_duration(value)
        if seconds is not None:
            return seconds
        if value is not None:
            self._wrong(name, 'it has no effect; give a duration such as "10m"')
        return default

    def _tolerances(self) -> Mapping[str, int | None]:
        """Read ``Ready=20m,StorageReady=Never``."""
        found: dict[str, int | None] = dict(REPAIR_TOLERANCES)
        named: dict[str, str] = {}
        value = self._annotations.get(names.NODE_REPAIR_TOLERANCES)
        for part in str(value).split(",") if value is not None else ():
            condition, _, text = part.strip().partition("=")
            seconds = read_duration(text)
            if condition not in REPAIR_TOLERANCES:
                nearest = suggest_nearest(condition, sorted(REPAIR_TOLERANCES))
                known = f"the conditions are {', '.join(REPAIR_TOLERANCES)}{nearest}"
                self._wrong(names.NODE_REPAIR_TOLERANCES, f"{part.strip()!r} has no effect; {known}")
            elif seconds is None and text != "Never":
                self._wrong(
                    names.NODE_REPAIR_TOLERANCES,
                    f'{part.strip()!r} has no effect; give a duration ("Ready=20m") or Never',
                )
            else:
                if condition in named:
                    idle = f"{named[condition]!r} has no effect; {condition} is named again"
                    self._wrong(names.NODE_REPAIR_TOLERANCES, idle)
                named[condition] = part.strip()
                found[condition] = seconds
        return found
