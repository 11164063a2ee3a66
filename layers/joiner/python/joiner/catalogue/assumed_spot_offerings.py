"""Spot offerings that a catalogue without spot prices does not have, as the packaged one is.

A cluster has spot prices. Problems that are reported here must not depend on the prices of such offerings.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType, Offering

Labels = Mapping[str, str]
Place = tuple[Labels, Labels]


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


def assume_spot_places(places: Iterable[Place]) -> Iterator[Place]:
    """Yield the labels of a spot node for each pool and place where there are on-demand nodes.

    >>> list(assume_spot_places([({"team": "web"}, {names.CAPACITY_TYPE: names.ON_DEMAND})]))
    [({'team': 'web'}, {'karpenter.sh/capacity-type': 'spot'})]
    """
    for of_pool, of_place in places:
        if of_place.get(names.CAPACITY_TYPE) == names.ON_DEMAND:
            yield of_pool, {**of_place, names.CAPACITY_TYPE: names.SPOT}
