"""Turn what an account owns into commitments: the reserved instances and savings plans that the settings declare, and
those that were read from the account.

Reserved instances come before savings plans, those of a zone before those of a region, and savings plans of one family
before those of all: the order in which AWS applies them. Regional reserved instances of one family are one commitment.
Sources: Amazon EC2 user guide, "How Reserved Instances are applied" (the normalization factors, and families without
size flexibility); Savings Plans user guide, "Understanding how Savings Plans apply to your usage".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner.catalogue.commitments import Commitment, Machine, apply_commitments
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
    until: int = 0
    """Epoch seconds of the end of the term; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class SavingsPlan:
    """One plan of ``price_per_hour`` $/h. ``rates`` are what it charges for an hour of each type; without them it is
    cheaper than on-demand by the share ``discount``. ``family`` is empty for a plan of all families."""

    id: str
    price_per_hour: float
    discount: float = 0.0
    family: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    until: int = 0
    """As that of reserved instances."""


DeclaredCommitments = tuple[tuple[ReservedInstances, ...], tuple[SavingsPlan, ...]]
"""What the settings declare."""

RESERVED_INSTANCES: Final = "reserved instances"
SAVINGS_PLANS: Final = "savings plans"
OTHER_INSTANCES: Final = "instances outside of the cluster"


@dataclass(frozen=True, slots=True)
class AccountCommitments:
    """What the account owns in this region, as it was read last.

    ``elsewhere`` are the account's on-demand instances that commitments apply to and that are not of the cluster.
    ``read_at`` is when each part was read (epoch seconds), ``failures`` why the last attempt failed.
    """

    reserved: tuple[ReservedInstances, ...] = ()
    plans: tuple[SavingsPlan, ...] = ()
    elsewhere: tuple[Machine, ...] = ()
    read_at: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def owned(self, now: int) -> DeclaredCommitments:
        """Return the commitments whose term has not ended. Without knowledge of the instances outside of the cluster
        there are none: it is unknown what they leave.
        """
        if OTHER_INSTANCES not in self.read_at:
            return (), ()
        return (
            tuple(one for one in self.reserved if not one.until or one.until > now),
            tuple(one for one in self.plans if not one.until or one.until > now),
        )


NOTHING_OWNED: Final = AccountCommitments()


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


def combine_commitments(
    declared: DeclaredCommitments, account: AccountCommitments, catalogue: Catalogue, now: int
) -> tuple[Commitment, ...]:
    """Return the declared commitments and what instances outside of the cluster leave of those of the account.

    AWS may apply a commitment to an instance outside of the cluster or to a node. Here the instances outside come
    first, so that a plan never counts on what another instance uses. What the settings declare is for the cluster only.
    """
    reserved, plans = account.owned(now)
    used = apply_commitments(list_commitments(reserved, plans, catalogue), account.elsewhere).used
    together = list_commitments((*declared[0], *reserved), (*declared[1], *plans), catalogue)
    left = (replace(one, amount=one.amount - used.get(one.id, 0)) for one in together)
    return tuple(one for one in left if one.amount > 0)


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
    """Return what the plan charges for an hour of a type; None if it has no rate, or the type no on-demand price."""
    if plan.rates:
        return plan.rates.get(known.name)
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
