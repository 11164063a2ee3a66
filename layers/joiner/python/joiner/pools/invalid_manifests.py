"""Mistakes in manifests, and what their author must change.

A broken pool does not affect the others: readers return problems together with the valid values. A problem names the
object, the field, its value and the remedy. The condition, the event and the log line are made from it.

>>> remedy = "there is no such field; did you mean resources?"
>>> print(InvalidManifest("Provisioner/default", "spec.limits.resoutces", "{cpu: 1000}", remedy))
Provisioner/default: spec.limits.resoutces is {cpu: 1000}: there is no such field; did you mean resources?
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
"""error: the object is not used. warning: it is used, but a part of it has no effect. info: an assumption about a
missing field.
"""


@dataclass(frozen=True, slots=True)
class InvalidManifest:
    """One mistake in one field of one object; ``object`` is ``Kind/name``."""

    object: str
    field: str
    value: str
    remedy: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.object}: {self.message}"

    @property
    def message(self) -> str:
        """Return the problem without its object, for an event or a condition on that object.

        Without a field, the problem concerns the whole object.
        """
        if not self.field:
            return f"it is {self.value}: {self.remedy}" if self.value else self.remedy
        return f"{self.field} is {self.value}: {self.remedy}" if self.value else f"{self.field}: {self.remedy}"

    def to_json(self) -> dict[str, str]:
        """Return the JSON form of the value."""
        return {
            "object": self.object,
            "field": self.field,
            "value": self.value,
            "message": self.remedy,
            "severity": self.severity,
        }


class InvalidManifests(ValueError):
    """Raised if a single object cannot be used; carries every problem found in it."""

    def __init__(self, problems: Iterable[InvalidManifest]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))
