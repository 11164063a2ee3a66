"""The tenancy of instances: hardware that is shared with other accounts (``default``), or not (``dedicated``).

A node is on dedicated hardware only if its pool or a pod requires it, because that costs more. EC2 sells a Dedicated
Instance at a price of its own. EC2's history of spot prices does not tell the tenancy: a spot instance is taken to
cost as much more as on demand. The surcharge is that of the region, also in its Local Zones. Sources: EC2 user guide,
"Dedicated Instances" and "Placement groups"; Karpenter (label ``karpenter.k8s.aws/instance-tenancy``).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType, Offering
from joiner.cluster import Requirements
from joiner.pools import NodePool
from joiner.pools.resolved_node_class import PlacementGroup

MOST_PARTITIONS: Final = 2
"""The most partitions of a placement group in which EC2 launches Dedicated Instances."""


def requires_dedicated(requirements: Requirements) -> bool:
    """Return whether these requirements allow dedicated hardware and not shared hardware.

    >>> requires_dedicated(Requirements.from_labels({names.TENANCY: "dedicated"})), requires_dedicated(Requirements())
    (True, False)
    """
    allowed = requirements.on(names.TENANCY)
    return names.DEDICATED_TENANCY in allowed and names.DEFAULT_TENANCY not in allowed


def find_allowed_tenancies(pool: NodePool) -> list[str]:
    """Return the tenancies that a pool allows."""
    allowed = pool.requirements.on(names.TENANCY)
    return [one for one in names.TENANCIES if one in allowed]


def takes_dedicated(group: PlacementGroup | None) -> bool:
    """Return whether EC2 launches Dedicated Instances into a placement group: into no spread group, and only into few
    partitions.

    >>> takes_dedicated(PlacementGroup("pg-1", "near", "cluster"))
    True
    >>> takes_dedicated(PlacementGroup("pg-2", "apart", "spread"))
    False
    """
    return group is None or (group.strategy != "spread" and group.partitions <= MOST_PARTITIONS)


def list_tenancies(pool: NodePool, group: PlacementGroup | None = None, *, dedicated_required: bool) -> tuple[str, ...]:
    """Return the tenancies of new nodes of a pool, in the placement group of its class if there is one.

    ``dedicated_required`` is whether a pending pod requires dedicated hardware.

    >>> from joiner.pools import NodeClassRef
    >>> open_pool = NodePool("open", NodeClassRef("EC2NodeClass", "default"))
    >>> list_tenancies(open_pool, dedicated_required=True)
    ('default', 'dedicated')
    >>> dedicated = Requirements.from_labels({names.TENANCY: "dedicated"})
    >>> list_tenancies(replace(open_pool, requirements=dedicated), dedicated_required=False)
    ('dedicated',)
    """
    allowed = find_allowed_tenancies(pool)
    shared = (names.DEFAULT_TENANCY,) if names.DEFAULT_TENANCY in allowed else ()
    dedicated = names.DEDICATED_TENANCY in allowed and (dedicated_required or not shared) and takes_dedicated(group)
    return (*shared, names.DEDICATED_TENANCY) if dedicated else shared


def find_surcharges(shared: Mapping[str, float], dedicated: Mapping[str, float]) -> dict[str, float]:
    """Return what types cost more on dedicated hardware in $/h, from prices by type; only types with both prices.

    >>> find_surcharges({"m5.large": 0.096, "t2.nano": 0.01}, {"m5.large": 0.1056})
    {'m5.large': 0.0096}
    """
    both = sorted(shared.keys() & dedicated.keys())
    return {name: round(max(dedicated[name] - shared[name], 0.0), 10) for name in both}


class DedicatedPrices:
    """What dedicated hardware costs beside the price of an offering. ``known`` is whether the catalogue has such
    prices."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.known = any(one.dedicated_surcharge is not None for one in catalogue.types.values())

    def surcharge(self, known: InstanceType) -> float | None:
        """Return the surcharge in $/h; None if EC2 does not sell the type as a Dedicated Instance.

        A catalogue without any such price does not tell: then the price of shared hardware stands in.
        """
        return known.dedicated_surcharge if self.known else 0.0

    def offerings(
        self, known: InstanceType, tenancies: Collection[str], limited: Iterable[Offering] = ()
    ) -> list[Offering]:
        """Return the offerings of a type on demand and for spot, with each of these tenancies.

        ``limited`` are further offerings, of reservations and commitments, which are on shared hardware only.
        """
        found = [*known.offerings, *limited] if names.DEFAULT_TENANCY in tenancies else []
        surcharge = self.surcharge(known) if names.DEDICATED_TENANCY in tenancies else None
        if surcharge is not None:
            found += [
                replace(one, tenancy=names.DEDICATED_TENANCY, price_per_hour=round(one.price_per_hour + surcharge, 10))
                for one in known.offerings
                if one.capacity_type in (names.ON_DEMAND, names.SPOT)
            ]
        return found
