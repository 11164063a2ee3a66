"""The tenancy of instances: hardware that is shared with other accounts (``default``), or not (``dedicated``).

A node is on dedicated hardware only if its pool or a pod requires it, because that costs more. EC2 sells a Dedicated
Instance at a price of its own; spot prices do not depend on the tenancy in EC2's price history. Sources: EC2 user
guide, "Dedicated Instances"; Karpenter (label ``karpenter.k8s.aws/instance-tenancy``).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType, Offering
from joiner.cluster import Requirements


def requires_dedicated(requirements: Requirements) -> bool:
    """Return whether these requirements allow dedicated hardware and not shared hardware.

    >>> requires_dedicated(Requirements.from_labels({names.TENANCY: "dedicated"})), requires_dedicated(Requirements())
    (True, False)
    """
    allowed = requirements.on(names.TENANCY)
    return names.DEDICATED_TENANCY in allowed and names.DEFAULT_TENANCY not in allowed


def list_tenancies(pool: Requirements, *, dedicated_required: bool) -> tuple[str, ...]:
    """Return the tenancies of new nodes of a pool with these requirements.

    ``dedicated_required`` is whether a pending pod requires dedicated hardware.

    >>> list_tenancies(Requirements(), dedicated_required=True)
    ('default', 'dedicated')
    >>> list_tenancies(Requirements.from_labels({names.TENANCY: "dedicated"}), dedicated_required=False)
    ('dedicated',)
    """
    allowed = pool.on(names.TENANCY)
    shared = (names.DEFAULT_TENANCY,) if names.DEFAULT_TENANCY in allowed else ()
    dedicated = names.DEDICATED_TENANCY in allowed and (dedicated_required or not shared)
    return (*shared, names.DEDICATED_TENANCY) if dedicated else shared


def find_surcharge(name: str, shared: Mapping[str, float], dedicated: Mapping[str, float]) -> float | None:
    """Return what a type costs more on dedicated hardware in $/h, from prices by type; None without both prices.

    >>> find_surcharge("m5.large", {"m5.large": 0.096}, {"m5.large": 0.1056})
    0.0096
    """
    if name not in shared or name not in dedicated:
        return None
    return round(max(dedicated[name] - shared[name], 0.0), 10)


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
            ]
        return found
