"""Turn what an account owns into commitments: the reserved instances and savings plans that the settings declare.

Reserved instances come before savings plans, those of a zone before those of a region, and savings plans of one family
before those of all: the order in which AWS applies them. Regional reserved instances of one family are one commitment.
Sources: Amazon EC2 user guide, "How Reserved Instances are applied" (the normalization factors, and families without
size flexibility); Savings Plans user guide, "Understanding how Savings Plans apply to your usage".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner.catalogue.commitments import Commitment
from joiner.catalogue.instance_types import Catalogue, InstanceType
from joiner.names import ON_DEMAND

SIZES: Final = {"nano": 1, "micro": 2, "small": 4, "medium": 8, "large": 16, "xlarge": 32}
"""Four times the normalization factor of each size, which makes it a whole number."""
SEVERAL: Final = re.compile(r"(?:metal-)?(\d+)xl(?:arge)?")
UNITS_PER_VCPU: Final = 8
"""Four times the normalization factor of a vCPU, for bare metal without a size in its name."""
FIXED_SIZE: Final = frozenset({"g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "gr6", "hpc7a", "inf1", "inf2", "p5", "u7i"})
"""Families whose reserved instances apply to their own size only."""
MICRODOLLARS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ReservedInstances:
    """``count`` reserved instances of one type for Linux on shared hardware; without a ``zone`` they are regional."""

    instance_type: str
    count: int
    zone: str = ""


@dataclass(frozen=True, slots=True)
class SavingsPlan:
    """One plan of ``price_per_hour`` $/h, which is cheaper than on-demand by the share ``discount``. ``family`` is
    empty for a plan of all families."""

    id: str
    price_per_hour: float
    discount: float
    family: str = ""


DeclaredCommitments = tuple[tuple[ReservedInstances, ...], tuple[SavingsPlan, ...]]
"""What the settings declare."""


def normalized_units(instance_type: str, vcpus: int) -> int:
    """Return four times the normalization factor of a type; 0 for a size without one.

    >>> normalized_units("m5.large", 2), normalized_units("m5.24xlarge", 96), normalized_units("m5.metal", 96)
    (16, 768, 768)
    >>> normalized_units("m7i.metal-48xl", 192), normalized_units("u-6tb1.unknown", 448)
    (1536, 0)
    """
    size = instance_type.partition(".")[2]
    if size in SIZES:
        return SIZES[size]
    if several := SEVERAL.fullmatch(size):
        return SIZES["xlarge"] * int(several[1])
    return UNITS_PER_VCPU * vcpus if size == "metal" else 0


def list_commitments(
    reserved: Iterable[ReservedInstances], plans: Iterable[SavingsPlan], catalogue: Catalogue
) -> tuple[Commitment, ...]:
    """Return the commitments for the types of this catalogue, in the order in which AWS applies them."""
    zonal: dict[tuple[str, str], int] = {}
    regional: dict[str, int] = {}
    for one in reserved:
        if one.zone:
            zonal[one.instance_type, one.zone] = zonal.get((one.instance_type, one.zone), 0) + one.count
        else:
            units = one.count * _uses_in_family(one.instance_type, catalogue).get(one.instance_type, 0)
            name = _pooled(one.instance_type)
            regional[name] = regional.get(name, 0) + units
    found = [
        *(
            Commitment(f"reserved-instances/{name}/{zone}", count, {name: 1}, zone)
            for (name, zone), count in sorted(zonal.items())
        ),
        *(
            Commitment(f"reserved-instances/{name}", units, _uses_in_family(name, catalogue))
            for name, units in sorted(regional.items())
        ),
        *(_of_plan(one, catalogue) for one in sorted(plans, key=lambda one: (not one.family, one.family, one.id))),
    ]
    return tuple(one for one in found if one.amount > 0 and one.uses)


def _family(instance_type: str) -> str:
    return instance_type.partition(".")[0]


def _pooled(instance_type: str) -> str:
    """Return the family, if its reserved instances apply to all sizes, or else the type."""
    family = _family(instance_type)
    return instance_type if family in FIXED_SIZE else family


def _uses_in_family(name: str, catalogue: Catalogue) -> dict[str, int]:
    """Return the units of the types that regional reserved instances of a type or family apply to."""
    if _family(name) in FIXED_SIZE:
        return {name: 1} if name in catalogue.types else {}
    found = {
        known.name: normalized_units(known.name, known.vcpus)
        for known in catalogue.types.values()
        if _family(known.name) == _family(name)
    }
    return {name: units for name, units in found.items() if units}


def _of_plan(plan: SavingsPlan, catalogue: Catalogue) -> Commitment:
    uses = {
        known.name: max(round(rate * MICRODOLLARS), 1)
        for known in catalogue.types.values()
        if not plan.family or _family(known.name) == plan.family
        for rate in (_rate(plan, known),)
        if rate is not None
    }
    return Commitment(f"savings-plan/{plan.id}", round(plan.price_per_hour * MICRODOLLARS), uses)


def _rate(plan: SavingsPlan, known: InstanceType) -> float | None:
    """Return what the plan charges for an hour of a type; None if the type has no on-demand price."""
    prices = [one.price_per_hour for one in known.offerings if one.capacity_type == ON_DEMAND]
    return max(prices) * (1 - plan.discount) if prices else None


def commitments_of_settings(settings: Mapping[str, Any]) -> DeclaredCommitments:
    """Read the commitments that a deployment writes into the settings of its function."""
    return (
        tuple(
            ReservedInstances(one["instanceType"], one["count"], one.get("zone") or "")
            for one in settings.get("reservedInstances") or ()
        ),
        tuple(
            SavingsPlan(
                f"settings-{number}",
                one["pricePerHour"],
                one["discountPercent"] / 100,
                one.get("family") or "",
            )
            for number, one in enumerate(settings.get("savingsPlans") or (), 1)
        ),
    )
