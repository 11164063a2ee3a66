"""Which price an instance type has in a zone, and what stands in for prices that EC2 does not return."""

from collections.abc import Iterable, Mapping

from joiner.catalogue.instance_types import Catalogue
from joiner.names import SPOT, zone_location

PriceLists = Mapping[str, Mapping[str, float]]
"""Prices per hour by instance type, by region, Local Zone group or zone."""


def find_zone_prices(name: str, zones: Iterable[str], on_demand: PriceLists) -> dict[str, float]:
    """Return the on-demand prices of a type by zone.

    `on_demand` has the prices of the region under the key "". A Local Zone whose group has no price list has the prices
    of the region.
    """
    lists = ((zone, on_demand.get(zone_location(zone)) or on_demand[""]) for zone in zones)
    return {zone: prices[name] for zone, prices in lists if name in prices}


def choose_spot_prices(found: PriceLists, former: Catalogue | None) -> tuple[PriceLists | None, str]:
    """Return the spot prices by type and zone, and their source.

    If EC2 returned none (`found`), they are those of the last catalogue. The prices are None if there was never any:
    then the on-demand price is the spot price.
    """
    if found:
        return found, "EC2"
    kept = {
        name: prices
        for name, each in (former.types if former else {}).items()
        if (prices := {one.zone: one.price_per_hour for one in each.offerings if one.capacity_type == SPOT})
    }
    return (kept, "the last catalogue") if kept else (None, "on-demand prices")
