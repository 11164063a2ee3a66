"""Offerings that are not launched for some time after EC2 had no capacity for them.

A lack of capacity in a placement group concerns only launches into this group: a spread group takes a few instances in
a zone, and a cluster group needs hosts that are close together.
"""

from typing import Final

UNAVAILABLE_SECONDS: Final = 180
"""Seconds from an insufficient-capacity error, or from an interruption of a spot instance, to the next launch from the
same offering.

Karpenter's cache of unavailable offerings (``pkg/cache``) keeps an entry for the same time.
"""


def zone_of_shortage(zone: str, placement_group: str) -> str:
    """Return the zone of a shortage: the part of the zone that a placement group (by id) can use, or the whole zone if
    there is no group.

    >>> zone_of_shortage("us-east-1a", "pg-0123"), zone_of_shortage("us-east-1a", "")
    ('us-east-1a@pg-0123', 'us-east-1a')
    """
    return f"{zone}@{placement_group}" if placement_group else zone
