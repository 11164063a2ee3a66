"""NodeOverlays that offerings meet and that change none of them: they set nothing, or what the offerings have already,
or overlays that take precedence set it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from joiner import names
from joiner.catalogue.assumed_spot_offerings import assume_spot_offerings, lacks_spot_prices
from joiner.catalogue.instance_types import Catalogue, InstanceType, Offering
from joiner.catalogue.overlay_conflicts import depends_on_account
from joiner.catalogue.overlay_places import Labels, NodePlace, assume_spot_places, find_nodes, list_distinct_places
from joiner.pools import InvalidManifest, NodeOverlay, Overlays

SETS_NOTHING: Final = "it sets neither price, priceAdjustment nor capacity: set one of them, or delete the overlay"

MOST_OFFERINGS: Final = 40_000
"""Offerings that are looked at: about a second. Idle overlays beyond are reported when others are gone."""

OF_PRICES: Final = frozenset({names.ZONE, names.CAPACITY_TYPE, names.TENANCY})


def find_idle_overlays(
    overlays: Overlays, catalogue: Catalogue, places: Iterable[NodePlace], doubted: Collection[str] = ()
) -> tuple[InvalidManifest, ...]:
    """Return a warning for each overlay that changes neither the price nor the resources of an offering.

    ``places`` are those of ``find_overlay_conflicts``. Overlays with a problem of their own (``doubted``) are left out.
    Without a pool that can have nodes, only those that set nothing are reported.
    A catalogue without spot prices counts as one with spot offerings of any price.
    """
    assumes_spot = lacks_spot_prices(catalogue)
    listed: list[NodePlace] | None = None
    found = []
    budget = iter(range(MOST_OFFERINGS))
    for position, overlay in enumerate(overlays.ordered):
        if overlay.name in doubted:
            continue
        if not overlay.prices and not overlay.capacity:
            found.append(_warn(overlay, SETS_NOTHING))
            continue
        if any(depends_on_account(*each) for each in overlay.requirements.items()):
            continue
        if listed is None:
            listed = _list_places(overlays, list(places), assumes_spot=assumes_spot)
            catalogue = assume_spot_offerings(catalogue) if assumes_spot else catalogue
        rivals = [*overlays.ordered[:position]]
        if listed and (
            remedy := _explain_idleness(overlay, rivals, catalogue, listed, budget, assumes_spot=assumes_spot)
        ):
            found.append(_warn(overlay, remedy))
    return tuple(found)


def _warn(overlay: NodeOverlay, remedy: str) -> InvalidManifest:
    return InvalidManifest(f"NodeOverlay/{overlay.name}", "", "", remedy, "warning")


def _list_places(overlays: Overlays, sold: Sequence[NodePlace], *, assumes_spot: bool) -> list[NodePlace]:
    """Return the distinct places, with the labels that overlays name and those that prices depend on."""
    keys = {key for one in overlays.ordered for key in one.requirements} | OF_PRICES
    return list_distinct_places((*sold, *assume_spot_places(sold)) if assumes_spot else sold, keys)


def _explain_idleness(
    overlay: NodeOverlay,
    rivals: list[NodeOverlay],
    catalogue: Catalogue,
    places: Sequence[NodePlace],
    budget: Iterator[int],
    *,
    assumes_spot: bool,
) -> str:
    """Return why the overlay changes no offering; empty if it changes one, or if there are too many offerings.

    ``rivals`` take precedence over it. ``budget`` has an item for each offering that may be looked at. With
    ``assumes_spot`` the prices of spot offerings are assumed.
    """
    met, shadows = False, dict[str, None]()
    for known, offering, labels in _list_met(overlay, catalogue, places):
        if next(budget, None) is None:
            return ""
        first = next((one for one in rivals if one.prices and one.requirements.allow(labels)), None)
        if overlay.price is not None and first is None and assumes_spot and offering.capacity_type == names.SPOT:
            return ""
        if overlay.prices and first is None and _changes_price(overlay, offering, labels, catalogue):
            return ""
        taken = Overlays(tuple(rivals)).capacity(labels)
        if any(name not in taken and known.capacity.get(name) != amount for name, amount in overlay.capacity.items()):
            return ""
        if not met:  # most overlays change the first offering; the others are compared with fewer
            rivals = [one for one in rivals if _may_shadow(one, overlay)]
        met = True
        shadows.update((one.name, None) for one in rivals if one.requirements.allow(labels))
    if not met:
        return "no offering of any pool meets it, so the overlay changes nothing"
    why = f"NodeOverlay/{next(iter(shadows))} takes precedence" if shadows else "they have what it sets already"
    return f"it changes no offering that meets it, because {why}: change what it sets, or delete the overlay"


def _may_shadow(one: NodeOverlay, overlay: NodeOverlay) -> bool:
    sets_same = (one.prices and overlay.prices) or bool(one.capacity.keys() & overlay.capacity.keys())
    return sets_same and not (one.requirements & overlay.requirements).contradictions()


def _list_met(
    overlay: NodeOverlay, catalogue: Catalogue, places: Sequence[NodePlace]
) -> Iterator[tuple[InstanceType, Offering, Labels]]:
    """Yield the offerings of the catalogue that meet the overlay, with their labels."""
    for known, place, labels in find_nodes(overlay.requirements, catalogue, places):
        where = place.get(names.ZONE, ""), place.get(names.CAPACITY_TYPE, "")
        for sold in known.offerings:
            if (sold.zone, sold.capacity_type) == where:
                yield known, sold, labels


def _changes_price(overlay: NodeOverlay, offering: Offering, labels: Labels, catalogue: Catalogue) -> bool:
    if overlay.price is not None and catalogue.commitments:
        return True  # nodes with this price use no commitments
    if labels.get(names.TENANCY, names.DEFAULT_TENANCY) != names.DEFAULT_TENANCY:
        return True  # the price of dedicated hardware is that of the plan
    return overlay.reprice(offering.price_per_hour) != offering.price_per_hour
