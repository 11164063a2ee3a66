"""A node class whose launches are to be tried, as resolve_node_classes writes it for launch_instances."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joiner.launching import Launch
from joiner.lifecycle.class_verdicts import MissingPermission, refusals_from_json, refusals_to_json


@dataclass(frozen=True, slots=True)
class ClassToValidate:
    """``launches`` differ in pool, instance type and zone: the class is of use if EC2 allows one of them.

    ``digest`` is that of the class now, ``held`` what EC2 refused before, ``whole`` whether the class has no other
    launches.
    """

    key: str
    digest: str
    launches: tuple[Launch, ...]
    held: tuple[MissingPermission, ...] = ()
    whole: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "class": self.key,
            "digest": self.digest,
            "launches": [each.to_json() for each in self.launches],
            "held": refusals_to_json(self.held),
            "whole": self.whole,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "ClassToValidate":
        """Read the JSON form of the value, as `to_json` returns it."""
        launches = tuple(Launch.from_json(each) for each in raw["launches"])
        return cls(raw["class"], raw["digest"], launches, refusals_from_json(raw["held"]), raw["whole"])
