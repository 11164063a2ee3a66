"""NodeOverlay (karpenter.sh/v1alpha1): what users know of instance types that the catalogue does not, prices and
extended resources.

An overlay speaks of every offering that meets its requirements; they may name anything that a node would carry, the
pool's name and labels included. Of several the heaviest counts; of equally heavy ones the last by name. Source:
Karpenter, "NodeOverlays".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from joiner.cluster import Requirements, Resources

ADJUSTMENT: Final = re.compile(r"(?P<amount>[+-]\d+(\.\d+)?)(?P<share>%?)")


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """``price`` replaces an offering's price ($/h), ``adjustment`` (+0.5, -10%) changes it; ``capacity`` adds
    resources.
    """

    name: str
    requirements: Requirements = field(default_factory=Requirements)
    price: float | None = None
    adjustment: str = ""
    capacity: Resources = field(default_factory=Resources)
    weight: int = 0

    def reprice(self, price: float) -> float:
        """
        >>> NodeOverlay("cheaper", adjustment="-10%").reprice(2.0), NodeOverlay("fee", adjustment="+0.5").reprice(2.0)
        (1.8, 2.5)
        """
        if self.price is not None:
            return self.price
        found = ADJUSTMENT.fullmatch(self.adjustment)
        if found is None:
            return price
        amount = float(found["amount"])
        return round(max(price * (1 + amount / 100) if found["share"] else price + amount, 0.0), 12)

    @property
    def prices(self) -> bool:
        return self.price is not None or bool(self.adjustment)


@dataclass(frozen=True, slots=True)
class Overlays:
    """All overlays, the one that counts first in front."""

    ordered: tuple[NodeOverlay, ...] = ()

    @classmethod
    def of(cls, overlays: Iterable[NodeOverlay]) -> "Overlays":
        by_name = sorted(overlays, key=lambda one: one.name, reverse=True)
        return cls(tuple(sorted(by_name, key=lambda one: -one.weight)))

    def __bool__(self) -> bool:
        return bool(self.ordered)

    def price(self, labels: Mapping[str, str], price: float) -> float:
        """The price of an offering whose nodes carry these labels."""
        first = next((one for one in self.ordered if one.prices and one.requirements.allow(labels)), None)
        return first.reprice(price) if first else price

    def capacity(self, labels: Mapping[str, str]) -> Resources:
        """What such a node has besides."""
        found: dict[str, int] = {}
        for one in self.ordered:
            if one.capacity and one.requirements.allow(labels):
                found = {**one.capacity, **found}
        return Resources(found)
