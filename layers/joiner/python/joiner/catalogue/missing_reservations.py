"""Why a pool that allows reserved capacity only has no nodes: its class has no free instance in a capacity reservation
that the pool allows.

Source: Karpenter, "NodeClasses" (spec.capacityReservationSelectorTerms).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType
from joiner.catalogue.unknown_values import find_unsatisfiable_requirements
from joiner.cluster import Requirements, ValueSet
from joiner.pools import InvalidManifest, NodeClass, NodePool, ResolvedNodeClass
from joiner.pools.capacity_reservations import CapacityReservation

RESERVED_ONLY: Final = "it allows reserved capacity only, and "
"""The beginning of the reason of such a pool."""

NONE_FREE: Final = "no instance is free in the capacity reservations of "
TERMS: Final = "spec.capacityReservationSelectorTerms"
MOST_NAMED: Final = 3


def allows_only_reserved(requirements: Requirements) -> bool:
    """Return whether these requirements allow the capacity type reserved and no other.

    >>> allows_only_reserved(Requirements.from_labels({names.CAPACITY_TYPE: names.RESERVED}))
    True
    >>> allows_only_reserved(Requirements())
    False
    """
    allowed = requirements.on(names.CAPACITY_TYPE)
    return names.RESERVED in allowed and names.ON_DEMAND not in allowed and names.SPOT not in allowed


def find_allowed_reservations(
    pool: NodePool, reservations: Iterable[CapacityReservation], catalogue: Catalogue
) -> Iterator[CapacityReservation]:
    """Yield those of the reservations, free or not, whose instances meet the requirements of the pool."""
    for one in reservations:
        known = catalogue.types.get(one.instance_type, InstanceType(one.instance_type))
        labels = {
            **known.labels,
            **(one.labels if one.id else {}),
            names.ZONE: one.zone,
            names.REGION: names.region_of(one.zone),
            names.CAPACITY_TYPE: names.RESERVED,
            names.TENANCY: names.DEFAULT_TENANCY,
        }
        if labels.keys().isdisjoint(pool.requirements.unmet(labels)):
            yield one


def explain_reserved_only(
    pool: NodePool, node_class: NodeClass | None, resolved: ResolvedNodeClass, catalogue: Catalogue
) -> str:
    """Return why a pool without offerings, which allows reserved capacity only, has none; empty if reservations are not
    the reason: no instance type meets its other requirements, or a free instance is unavailable now."""
    if not allows_only_reserved(pool.requirements):
        return ""
    lacks = explain_missing_reservations(pool, node_class, resolved, catalogue)
    if not lacks or find_unsatisfiable_requirements(pool, catalogue):
        return ""
    return f"{RESERVED_ONLY}{lacks}, or allow on-demand, too"


def explain_missing_reservations(
    pool: NodePool, node_class: NodeClass | None, resolved: ResolvedNodeClass, catalogue: Catalogue
) -> str:
    """Return which reservations the class lacks for the pool, and what to do; empty if it has a free instance that the
    pool allows."""
    its, selected = f"its {pool.class_ref.described}", resolved.reservations
    if not selected:
        return _explain_unselected(pool, node_class)
    allowed = [*find_allowed_reservations(pool, selected, catalogue)]
    if not allowed:
        return (
            f"its other requirements exclude all capacity reservations of {its} ({_name(selected)}): allow their "
            "instance types and zones"
        )
    free = [one for one in allowed if one.available > 0]
    if not free:
        return f"{NONE_FREE}{its} that it allows ({_name(allowed)}): enlarge one, or select another"
    if not any(one.zone in resolved.zones for one in free):
        return (
            f"{its} has no subnet with a free address in the zone of a capacity reservation with a free instance "
            f"({_name(free)}): select one there"
        )
    return ""


def _explain_unselected(pool: NodePool, node_class: NodeClass | None) -> str:
    its = f"its {pool.class_ref.described}"
    if pool.class_ref.kind != "EC2NodeClass":
        return f"{its} selects no capacity reservation, as only an EC2NodeClass does: use one"
    if node_class and node_class.capacity_reservation_terms:
        return f"no active capacity reservation matches {TERMS} of {its}: correct the terms, or create a reservation"
    return f"{its} selects no capacity reservation: set {TERMS} in the class"


def find_missing_reservations(pool: NodePool, closed: str) -> InvalidManifest | None:
    """Return the warning of a pool with this reason why it has no offerings, or None for other reasons.

    None if all instances are in use: nothing is wrong with the pool. None of a standalone claim: its condition has the
    reason already.
    """
    if pool.claim or not closed.startswith(RESERVED_ONLY) or NONE_FREE in closed:
        return None
    field = pool.requirement_field(names.CAPACITY_TYPE)
    return InvalidManifest(pool.key, field, write_values(pool.requirements.on(names.CAPACITY_TYPE)), closed, "warning")


def write_values(allowed: ValueSet) -> str:
    """Return the values as a manifest has them: those that it lists, or else what it excludes."""
    return ", ".join(allowed) if allowed.finite else str(allowed)


def _name(reservations: Sequence[CapacityReservation]) -> str:
    shown = [f"{one.id}: {one.instance_type} in {one.zone}" for one in reservations[:MOST_NAMED]]
    more = f" and {len(reservations) - MOST_NAMED} more" if len(reservations) > MOST_NAMED else ""
    return ", ".join(shown) + more
