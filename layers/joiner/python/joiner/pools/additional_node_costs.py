"""What a node costs an hour beside its instance: volumes, a public address, its running, and its interruptions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """The parts of a node's price beside the instance, in $/h.

    ``volumes`` are the EBS volumes of its class, ``address`` is a public IPv4 address, and ``running`` is what every
    further node costs whatever its size. ``interruptions`` is the work that interruptions of a spot node lose; nobody
    bills it.

    >>> NodeCosts(volumes=0.002, running=0.01).total
    0.012
    """

    volumes: float = 0.0
    address: float = 0.0
    running: float = 0.0
    interruptions: float = 0.0

    @property
    def total(self) -> float:
        """Return the sum of the parts in $/h."""
        return round(self.volumes + self.address + self.running + self.interruptions, 10)

    def to_json(self) -> dict[str, float]:
        """Return the JSON form of the value."""
        lost = {"interruptions": self.interruptions} if self.interruptions else {}
        return {"volumes": self.volumes, "address": self.address, "running": self.running, **lost}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "NodeCosts":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(*(float(raw.get(name, 0.0)) for name in ("volumes", "address", "running", "interruptions")))


NO_COSTS: Final = NodeCosts()

ALWAYS_SHOWN: Final = ("instance", "volumes", "address", "running")
"""The parts of a price that are shown also if they are zero."""


def sum_price_parts(nodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the parts of the price of several nodes together, in $/h.

    >>> sum_price_parts([{"instance": 0.1}, {"instance": 0.2, "interruptions": 0.01}])
    {'instance': 0.3, 'volumes': 0, 'address': 0, 'running': 0, 'interruptions': 0.01}
    """
    found: dict[str, float] = dict.fromkeys(ALWAYS_SHOWN, 0)
    for parts in nodes:
        for name, amount in parts.items():
            found[name] = found.get(name, 0) + amount
    return {name: round(amount, 10) for name, amount in found.items()}
