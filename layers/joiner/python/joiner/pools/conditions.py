"""Status conditions as in Kubernetes: one for each type, whose transition time changes only with its status.

Source: Kubernetes API conventions, "Typical status properties".

>>> from datetime import datetime, timezone
>>> noon, one = (datetime(2026, 11, 21, hour, tzinfo=timezone.utc) for hour in (12, 13))
>>> launched = Conditions().set("Launched", "True", "Launched", "", at=noon)
>>> launched.set("Launched", "True", "Launched", "i-1", at=one)["Launched"].since == noon
True
>>> launched.set("Launched", "False", "Lost", "", at=one)["Launched"].since == one
True
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from joiner.pools.timestamps import format_timestamp, parse_timestamp

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; ``since`` is the time of the last change of its status."""

    type: str
    status: Status
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    observed_generation: int | None = None

    @property
    def true(self) -> bool:
        """Return whether its status is True."""
        return self.status == "True"

    @property
    def content(self) -> tuple[Status, str, str]:
        """Return what it states, without its times."""
        return self.status, self.reason, self.message

    @classmethod
    def from_kube(cls, manifest: Mapping[str, Any]) -> "Condition":
        """Read one condition; an unknown status is Unknown."""
        status = manifest.get("status")
        return cls(
            type=str(manifest.get("type", "")),
            status="True" if status == "True" else "False" if status == "False" else "Unknown",
            reason=manifest.get("reason") or "",
            message=manifest.get("message") or "",
            since=parse_timestamp(manifest.get("lastTransitionTime")),
            observed_generation=manifest.get("observedGeneration"),
        )

    def to_kube(self) -> dict[str, Any]:
        """Return the condition as in a status; the reason is the type if it is empty."""
        shown: dict[str, Any] = {
            "type": self.type,
            "status": self.status,
            "reason": self.reason or self.type,
            "message": self.message,
        }
        if self.since is not None:
            shown["lastTransitionTime"] = format_timestamp(self.since)
        if self.observed_generation is not None:
            shown["observedGeneration"] = self.observed_generation
        return shown


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of one object, in the order in which they were first set."""

    items: tuple[Condition, ...] = ()

    @classmethod
    def from_kube(cls, manifests: Sequence[Mapping[str, Any]] | None) -> "Conditions":
        """Read the conditions of a status."""
        return cls(tuple(Condition.from_kube(manifest) for manifest in manifests or ()))

    def to_kube(self) -> list[dict[str, Any]]:
        """Return the conditions as in a status."""
        return [condition.to_kube() for condition in self.items]

    def __iter__(self) -> Iterator[Condition]:
        return iter(self.items)

    def __getitem__(self, name: str) -> Condition:
        """Return the condition of this type; an Unknown one if it was never set."""
        for condition in self.items:
            if condition.type == name:
                return condition
        return Condition(name, "Unknown")

    def true(self, name: str) -> bool:
        """Return whether the condition of this type is True."""
        return self[name].true

    def set(
        self,
        name: str,
        status: Status,
        reason: str = "",
        message: str = "",
        *,
        at: datetime,
        generation: int | None = None,
    ) -> "Conditions":
        """Return the conditions with a changed one. Its transition time changes only with its status."""
        before = self[name]
        since = before.since if before.status == status and before.since else at
        after = replace(
            before, status=status, reason=reason or name, message=message, since=since, observed_generation=generation
        )
        if any(condition.type == name for condition in self.items):
            return Conditions(tuple(after if condition.type == name else condition for condition in self.items))
        return Conditions((*self.items, after))

    def without(self, name: str) -> "Conditions":
        """Return these conditions without the one of this type."""
        return Conditions(tuple(condition for condition in self.items if condition.type != name))

    def rebased(self, read: "Conditions", newest: "Conditions") -> "Conditions":
        """Return ``newest`` with every change that leads from ``read`` to these conditions. A condition that both
        changed is as here: see `find_conflicts`.

        >>> launched = Conditions((Condition("Launched", "True"),))
        >>> drifted = Conditions((*launched, Condition("Drifted", "True")))
        >>> registered = Conditions((*launched, Condition("Registered", "True")))
        >>> [condition.type for condition in registered.rebased(launched, drifted)]
        ['Launched', 'Drifted', 'Registered']
        """
        before = {condition.type: condition for condition in read}
        removed = before.keys() - {condition.type for condition in self}
        changed = {each.type: each for each in self if before.get(each.type) != each}
        kept = [changed.pop(each.type, each) for each in newest if each.type not in removed]
        return Conditions((*kept, *changed.values()))

    def find_conflicts(self, read: "Conditions", newest: "Conditions") -> tuple[str, ...]:
        """Return the types of conditions that were changed since ``read`` here and in ``newest``, to different content.

        >>> read = Conditions((Condition("Registered", "Unknown"),))
        >>> registered, failed = (Conditions((Condition("Registered", status),)) for status in ("True", "False"))
        >>> failed.find_conflicts(read, registered), failed.find_conflicts(read, read)
        (('Registered',), ())
        """
        types = dict.fromkeys(condition.type for conditions in (read, self, newest) for condition in conditions)
        return tuple(name for name in types if len({each[name].content for each in (read, self, newest)}) == 3)

    def with_ready(self, *dependents: str, at: datetime, generation: int | None = None) -> "Conditions":
        """Return these conditions with ``Ready`` computed from its dependents.

        It is True if all dependents are. It is False, with the reason of the dependent, if one is False; otherwise
        Unknown.
        """
        for status in ("False", "Unknown"):
            for name in dependents:
                if self[name].status == status:
                    message = f"{name}: {self[name].message}" if self[name].message else f"{name} is {status}"
                    known: Status = "False" if status == "False" else "Unknown"
                    return self.set("Ready", known, self[name].reason or name, message, at=at, generation=generation)
        return self.set("Ready", "True", "Ready", at=at, generation=generation)
