"""Spot offerings that a catalogue without spot prices does not have, as the packaged one is.

A cluster has spot prices. Problems that are reported here must not depend on the prices of such offerings.
"""

from collections.abc import Iterator
from dataclasses import replace

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType, Offering


def lacks_spot_prices(catalogue: Catalogue) -> bool:
    """Return whether no instance type has a spot offering."""
    return not any(one.capacity_type == names.SPOT for known in catalogue.types.values() for one in known.offerings)


def assume_spot_offerings(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with a spot offering for each on-demand offering, at the same price, which spot prices
    do not exceed.
    """
    types = (known.with_offerings([*known.offerings, *_spot_twins(known)]) for known in catalogue.types.values())
    return Catalogue.of(types, catalogue.commitments)


def _spot_twins(known: InstanceType) -> Iterator[Offering]:
    return (replace(one, capacity_type=names.SPOT) for one in known.offerings if one.capacity_type == names.ON_DEMAND)
