"""NodeOverlay (karpenter.sh/v1alpha1): prices and extended resources that users add to the catalogue.

An overlay applies to every offering that meets its requirements. They may name any label of a node, including the
pool's name and labels. The overlay with the highest weight counts; of equal weights the last by name. Source:
Karpenter, "NodeOverlays".
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from joiner.cluster import Requirements, Resources

ADJUSTMENT: Final = re.compile(r"(?P<amount>[+-]\d+(\.\d+)?)(?P<share>%?)")


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """One overlay.

    ``price`` replaces an offering's price ($/h), ``adjustment`` (+0.5, -10%) changes it, and ``capacity`` adds
    resources.
    """

    name: str
    requirements: Requirements = field(default_factory=Requirements)
    price: float | None = None
    adjustment: str = ""
    capacity: Resources = field(default_factory=Resources)
    weight: int = 0

    def reprice(self, price: float) -> float:
        """Return the new price for an offering's ``price``, both in $/h.

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
        """Return whether the overlay sets or changes a price."""
        return self.price is not None or bool(self.adjustment)


@dataclass(frozen=True, slots=True)
class Overlays:
    """All overlays, in descending precedence."""

    ordered: tuple[NodeOverlay, ...] = ()

    @classmethod
    def of(cls, overlays: Iterable[NodeOverlay]) -> "Overlays":
        """Return the overlays, highest weight first; of equal weight, the last name first."""
        by_name = sorted(overlays, key=lambda one: one.name, reverse=True)
        return cls(tuple(sorted(by_name, key=lambda one: -one.weight)))

    def __bool__(self) -> bool:
        return bool(self.ordered)

    def without(self, names: Collection[str]) -> "Overlays":
        """Return the overlays that do not have these names."""
        return Overlays(tuple(one for one in self.ordered if one.name not in names)) if names else self

    @property
    def resources(self) -> frozenset[str]:
        """Return the names of all resources that overlays add."""
        return frozenset(name for one in self.ordered for name in one.capacity)

    def price(self, labels: Mapping[str, str], price: float) -> float:
        """Return the price ($/h) of an offering whose nodes have these labels."""
        first = self._pricing(labels)
        return first.reprice(price) if first else price

    def fixes_price(self, labels: Mapping[str, str]) -> bool:
        """Return whether an overlay replaces the price of an offering whose nodes have these labels."""
        first = self._pricing(labels)
        return first is not None and first.price is not None

    def _pricing(self, labels: Mapping[str, str]) -> NodeOverlay | None:
        return next((one for one in self.ordered if one.prices and one.requirements.allow(labels)), None)

    def capacity(self, labels: Mapping[str, str]) -> Resources:
        """Return the additional resources of such a node."""
        found: dict[str, int] = {}
        for one in self.ordered:
            if one.capacity and one.requirements.allow(labels):
                found = {**one.capacity, **found}
        return Resources(found)
