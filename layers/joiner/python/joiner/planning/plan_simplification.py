"""What the last step of planning changed in a plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Simplification:
    """What the last step of planning changed: how many nodes and instance types fewer the plan has, how many nodes it
    moved to other zones, what all of that costs in $/h, and how many pods it moved between nodes."""

    nodes: int = 0
    types: int = 0
    moved: int = 0
    price_per_hour: float = 0.0
    moved_pods: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "fewerNodes": self.nodes,
            "fewerTypes": self.types,
            "nodesMovedToOtherZones": self.moved,
            "podsMovedToOtherNodes": self.moved_pods,
            "pricePerHour": self.price_per_hour,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Simplification":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            fields["fewerNodes"],
            fields["fewerTypes"],
            fields["nodesMovedToOtherZones"],
            fields["pricePerHour"],
            fields.get("podsMovedToOtherNodes", 0),  # absent in plans that were stored before it was counted
        )


UNCHANGED: Final = Simplification()
