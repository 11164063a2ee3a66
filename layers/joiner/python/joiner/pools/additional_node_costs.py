"""What a node costs an hour beside its instance: volumes, a public address, and its running."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """The parts of a node's price beside the instance, in $/h.

    ``volumes`` are the EBS volumes of its class, ``address`` is a public IPv4 address, and ``running`` is what every
    further node costs whatever its size.

    >>> NodeCosts(volumes=0.002, running=0.01).total
    0.012
    """

    volumes: float = 0.0
    address: float = 0.0
    running: float = 0.0

    @property
    def total(self) -> float:
        """Return the sum of the parts in $/h."""
        return round(self.volumes + self.address + self.running, 10)

    def to_json(self) -> dict[str, float]:
        """Return the JSON form of the value."""
        return {"volumes": self.volumes, "address": self.address, "running": self.running}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "NodeCosts":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(*(float(raw.get(name, 0.0)) for name in ("volumes", "address", "running")))


NO_COSTS: Final = NodeCosts()
