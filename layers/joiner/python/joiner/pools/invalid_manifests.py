"""Mistakes in manifests, with what their author must change.

A broken pool never stops the others: readers return problems beside the values that are good. A problem names the
object, the field, the value that stands there, and the remedy; the condition, the event and the log line are renderings
of it.

>>> remedy = "there is no such field; did you mean resources?"
>>> print(InvalidManifest("Provisioner/default", "spec.limits.resoutces", "{cpu: 1000}", remedy))
Provisioner/default: spec.limits.resoutces is {cpu: 1000}: there is no such field; did you mean resources?
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
"""error: the object is not used. warning: it is used, but not all it says is done. info: what was assumed where it says
nothing.
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
        """The problem without its object: what an event or a condition on that very object says. Without a field it is
        of the whole.
        """
        if not self.field:
            return f"it is {self.value}: {self.remedy}" if self.value else self.remedy
        return f"{self.field} is {self.value}: {self.remedy}" if self.value else f"{self.field}: {self.remedy}"


class InvalidManifests(ValueError):
    """Raised where one object was to be read and it cannot be used; carries every problem found in it."""

    def __init__(self, problems: Iterable[InvalidManifest]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))
