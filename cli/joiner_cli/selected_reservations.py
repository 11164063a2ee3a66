"""Which capacity reservations of the catalogue file a class uses in plans without AWS: those that a cluster would use,
as far as the files tell.

How many instances of a reservation are free is in no manifest: the status of a class names its reservations only. So a
plan counts the reservations of the catalogue file, where they are offerings with a ``count``. A class uses those that
its terms can select and its status names. A term with an id selects this reservation only. Of other terms, the status
tells what they select; without a status, they are assumed to select every reservation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner import names
from joiner.catalogue import Catalogue, Offering
from joiner.pools import NodeClass
from joiner.pools.capacity_reservations import CapacityReservation

UNCOUNTED: Final = 1_000_000
"""The free instances of an offering without a count: more than a plan has nodes."""


@dataclass(frozen=True, slots=True)
class SelectedReservations:
    """The reservations of a class: ``counted`` in the catalogue, so that a plan may use them, and ``uncounted``, of
    which nothing but the id may be known. ``ended`` are the ids of those that take no new nodes. ``contradicted`` are
    those of the status, each with the one of the same id in the catalogue, which has another type or zone. Without
    ``known``, no cluster has looked for any.
    """

    counted: tuple[CapacityReservation, ...] = ()
    uncounted: tuple[CapacityReservation, ...] = ()
    ended: tuple[str, ...] = ()
    contradicted: tuple[tuple[CapacityReservation, CapacityReservation], ...] = ()
    known: bool = False

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of all of them."""
        usable = (one.id for one in (*self.counted, *self.uncounted))
        return frozenset({*usable, *self.ended, *(one.id for one, _ in self.contradicted)} - {""})


def list_counted_reservations(catalogue: Catalogue) -> list[CapacityReservation]:
    """Return the capacity reservations that are offerings of the catalogue file; the id is empty if none is given."""
    return [
        CapacityReservation(
            one.reservation, known.name, one.zone, available=UNCOUNTED if one.count is None else one.count
        )
        for known in catalogue.types.values()
        for one in known.offerings
        if one.capacity_type == names.RESERVED and one.available
    ]


def remove_reservations(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue without reserved offerings, because plans use those of the classes."""
    if not any(map(_is_reserved, (one for known in catalogue.types.values() for one in known.offerings))):
        return catalogue
    return Catalogue.of(
        (
            known.with_offerings([one for one in known.offerings if not _is_reserved(one)])
            for known in catalogue.types.values()
        ),
        catalogue.commitments,
    )


def _is_reserved(one: Offering) -> bool:
    return one.capacity_type == names.RESERVED


def select_reservations(
    own: NodeClass | None, listed: Sequence[Mapping[str, Any]] | None, counted: Sequence[CapacityReservation]
) -> SelectedReservations:
    """Return which of the ``counted`` reservations of the catalogue the class uses. ``listed`` are those of its status,
    None if it has none. Only an EC2NodeClass with terms selects reservations.
    """
    if own is None or own.kind != "EC2NodeClass" or not own.capacity_reservation_terms:
        return SelectedReservations()
    if listed is None:
        return _select_by_terms(own, counted)
    listed = [one for one in listed if _may_select(own, str(one.get("id")))]
    declared = [CapacityReservation.from_status(one) for one in listed if _is_active(one)]
    used, contradicted, left = [], [], list(counted)
    for one in declared:
        same = [each for each in counted if each.id == one.id]
        there = [each for each in same if _place(each) == _place(one)]
        unnamed = [each for each in left if not each.id and _place(each) == _place(one)]
        if same and not there:
            contradicted.append((one, same[0]))
        for found in there or unnamed[:1]:
            used.append(replace(one, available=found.available))
            left.remove(found)
    seen = {one.id for one in used} | {one.id for one, _ in contradicted}
    return SelectedReservations(
        tuple(used),
        tuple(one for one in declared if one.id not in seen),
        tuple(str(one.get("id")) for one in listed if not _is_active(one)),
        tuple(contradicted),
        known=True,
    )


def _select_by_terms(own: NodeClass, counted: Sequence[CapacityReservation]) -> SelectedReservations:
    used = tuple(one for one in counted if not one.id or _may_select(own, one.id))
    seen = {one.id for one in used}
    named = dict.fromkeys(term.id for term in own.capacity_reservation_terms if term.id)
    return SelectedReservations(used, tuple(CapacityReservation(one, "", "") for one in named if one not in seen))


def _may_select(own: NodeClass, reservation: str) -> bool:
    return any(term.id in ("", reservation) for term in own.capacity_reservation_terms)


def _is_active(raw: Mapping[str, Any]) -> bool:
    return bool(raw.get("state", "active") == "active")


def _place(one: CapacityReservation) -> tuple[str, str]:
    return one.instance_type, one.zone


def list_unselected(
    counted: Iterable[CapacityReservation], selected: Iterable[SelectedReservations]
) -> Iterator[CapacityReservation]:
    """Yield the reservations of the catalogue that no class selects."""
    found = list(selected)
    named = frozenset[str]().union(*(one.ids for one in found))
    places = {_place(each) for one in found for each in one.counted}
    return (one for one in counted if (one.id not in named if one.id else _place(one) not in places))
