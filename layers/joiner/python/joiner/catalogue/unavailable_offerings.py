"""Offerings that are not launched for some time after EC2 had no capacity for them.

A lack of capacity in a placement group concerns only launches into this group: a spread group takes a few instances in
a zone, and a cluster group needs hosts that are close together. A lack of dedicated hardware concerns only launches
onto it, and a full capacity reservation only launches into this reservation.
"""

from typing import Final

from joiner.names import DEFAULT_TENANCY

UNAVAILABLE_SECONDS: Final = 180
"""Seconds from an insufficient-capacity error, or from an interruption of a spot instance, to the next launch from the
same offering.

Karpenter's cache of unavailable offerings (``pkg/cache``) keeps an entry for the same time.
"""


def zone_of_shortage(zone: str, placement_group: str, tenancy: str = DEFAULT_TENANCY, *, reservation: str = "") -> str:
    """Return the zone of a shortage: the part of the zone that a capacity reservation or a placement group (by id) or a
    tenancy can use, or the whole zone.

    >>> zone_of_shortage("us-east-1a", "pg-0123"), zone_of_shortage("us-east-1a", "")
    ('us-east-1a@pg-0123', 'us-east-1a')
    >>> zone_of_shortage("us-east-1a", "", "dedicated")
    'us-east-1a@dedicated'
    >>> zone_of_shortage("us-east-1a", "pg-0123", reservation="cr-0123")
    'us-east-1a@cr-0123'
    """
    if reservation:
        return f"{zone}@{reservation}"
    parts = [placement_group, tenancy if tenancy != DEFAULT_TENANCY else ""]
    return "@".join([zone, *filter(None, parts)])
