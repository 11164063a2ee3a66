"""The offerings of the capacity reservations of a class: instances that the account pays for whether they run or not.

>>> sold = Offering("us-east-1a", names.ON_DEMAND, 0.1)
>>> known = InstanceType("m5.large", offerings=(sold,))
>>> one = CapacityReservation("cr-1", "m5.large", "us-east-1a", available=2)
>>> [(each.reservation, each.count, each.price_per_hour < 0.001) for each in list_reserved_offerings([one], known)]
[('cr-1', 2, True)]
"""

from collections.abc import Iterable, Iterator

from joiner import names
from joiner.catalogue.instance_types import InstanceType, Offering
from joiner.pools.capacity_reservations import PRICE_SHARE, CapacityReservation


def list_reserved_offerings(reservations: Iterable[CapacityReservation], known: InstanceType) -> Iterator[Offering]:
    """Yield the offerings of an instance type in these reservations, as many as are free."""
    for one in reservations:
        if one.instance_type == known.name and one.available > 0:
            price = known.price(one.zone, names.ON_DEMAND) or 0.0
            yield Offering(one.zone, names.RESERVED, price * PRICE_SHARE, reservation=one.id, count=one.available)
