"""Nodes that a plan lacks although no pod asks for them: those of static pools and of standalone claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class UnlaunchedNodes:
    """The number of nodes that an owner lacks, and why. ``owner`` is the key of the pool or of the claim."""

    owner: str
    nodes: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {"object": self.owner, "nodes": self.nodes, "reason": self.reason}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "UnlaunchedNodes":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(fields["object"], fields["nodes"], fields["reason"])
