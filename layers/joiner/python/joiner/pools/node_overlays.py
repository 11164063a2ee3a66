"""NodeOverlay (karpenter.sh/v1alpha1): what users know of instance types that the catalogue does not, prices and extended resources.

An overlay speaks of every offering that meets its requirements; they may name anything that a node would carry, the pool's name and
labels included. Of several the heaviest counts; of equally heavy ones the last by name. Source: Karpenter, "NodeOverlays".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joiner.cluster import InvalidField, Requirements, Resources
from joiner.cluster.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.invalid_manifests import InvalidManifest

PRICE: Final = r"\d+(\.\d+)?"
ADJUSTMENT: Final = re.compile(r"(?P<amount>[+-]\d+(\.\d+)?)(?P<share>%?)")
OF_THE_TYPE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """``price`` replaces an offering's price ($/h), ``adjustment`` (+0.5, -10%) changes it; ``capacity`` adds resources."""

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


def read_overlays(manifests: Iterable[Mapping[str, Any]]) -> tuple[Overlays, tuple[InvalidManifest, ...]]:
    """The overlays that can be used, and what is wrong with the others."""
    found: list[NodeOverlay] = []
    problems: list[InvalidManifest] = []
    for manifest in manifests:
        metadata = manifest.get("metadata") or {}
        notes = ManifestProblems(f"NodeOverlay/{metadata.get('name', '')}")
        overlay = _read(str(metadata.get("name", "")), ManifestFields(manifest.get("spec"), "spec", notes), notes)
        if not notes.errors and not metadata.get("deletionTimestamp"):
            found.append(overlay)
        problems.extend(notes.problems)
    return Overlays.of(found), tuple(problems)


def _read(name: str, spec: ManifestFields, notes: ManifestProblems) -> NodeOverlay:
    price = spec.text("price", pattern=PRICE, remedy='give $/h as a text, such as "0.25"')
    adjustment = spec.text("priceAdjustment", pattern=ADJUSTMENT.pattern, remedy='give a signed amount or share, such as "+0.1" or "-10%"')
    if price is not None and adjustment is not None:
        spec.wrong("priceAdjustment", "price and priceAdjustment exclude each other; remove one of them")
    if adjustment is not None and adjustment.endswith("%") and float(adjustment[:-1]) < -100:
        spec.wrong("priceAdjustment", "nothing costs less than nothing: give at most -100%")
    capacity = spec.resources("capacity")
    for resource in OF_THE_TYPE:
        if resource in capacity:
            notes.note(f"spec.capacity.{resource}", capacity[resource], "only extended resources can be added; this one is the type's own")
    overlay = NodeOverlay(
        name=name,
        requirements=_requirements(spec, notes),
        price=float(price) if price else None,
        adjustment=adjustment or "",
        capacity=capacity,
        weight=spec.integer("weight", minimum=1, maximum=10_000) or 0,
    )
    spec.close()
    return overlay


def _requirements(spec: ManifestFields, notes: ManifestProblems) -> Requirements:
    said = spec.raw("requirements")
    if said is None:
        return Requirements()
    if not isinstance(said, list) or not all(isinstance(one, Mapping) for one in said):
        spec.wrong("requirements", "give a list of requirements (key, operator, values)")
        return Requirements()
    try:
        return Requirements.from_kube(said)
    except InvalidField as invalid:
        notes.note(f"spec.requirements{invalid.field}", invalid.value, invalid.remedy)
        return Requirements()
