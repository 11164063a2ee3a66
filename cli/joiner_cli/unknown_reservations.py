"""What a plan without AWS does not know of capacity reservations and assumes, and which pods and pools lack them."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, find_unsatisfiable_requirements
from joiner.catalogue.missing_reservations import (
    RESERVED_ONLY,
    allows_only_reserved,
    find_allowed_reservations,
    write_values,
)
from joiner.cluster import Pod, Requirements
from joiner.planning import PendingPod, Plan, Reason, Snapshot
from joiner.planning.model.node_offers import NO_TYPE_AVAILABLE
from joiner.planning.state.static_pools import NONE_AVAILABLE
from joiner.pools import InvalidManifest, NodeClass, NodeClassProblem, NodePool, ResolvedNodeClass
from joiner.pools.capacity_reservations import CapacityReservation
from joiner_cli.selected_reservations import SelectedReservations

NONE_KNOWN: Final = "the catalogue has no capacity reservations (--catalogue)"
SPEC: Final = "spec.capacityReservationSelectorTerms"
STATUS: Final = "status.capacityReservations"
MOST_NAMED: Final = 5


def describe_reservations(
    selected: SelectedReservations, counted: Collection[CapacityReservation], own: NodeClass | None
) -> Iterator[NodeClassProblem]:
    """Yield what the plan does not know of the reservations of a class, and what it assumes. ``counted`` are those of
    the catalogue.
    """
    if own is None or not own.capacity_reservation_terms:
        return
    missing = selected.uncounted
    if not selected.known:
        used = {one.id for one in selected.counted}
        some = f" {', '.join(sorted(used))}" if {one.id for one in counted} - used and "" not in used else ""
        those = f"{some} of the catalogue" if some else " those of the catalogue"
        assumed = f"assumes that they select{those}" if used else "uses none"
        if used and missing:
            assumed += f", and uses none of {_name(missing)}"
        how = "" if used and not missing else _how_to_add(missing[0] if missing else None)
        yield _note(f"{SPEC}: capacity reservations are not looked up: this plan {assumed}{how}")
        return
    for ended in selected.ended:
        yield _note(f"{STATUS}: {ended} is expiring: it takes no new nodes")
    for one, other in selected.contradicted:
        message = (
            f"{STATUS}: {one.id} is of {one.instance_type} in {one.zone}, and the catalogue has it as "
            f"{other.instance_type} in {other.zone}: this plan uses none of it: correct the file"
        )
        yield NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotKnown", message, "warning")
    if missing:
        unknown = "the status does not say how many instances are free"
        yield _note(f"{STATUS}: {unknown} in {_name(missing)}: this plan uses none of them{_how_to_add(missing[0])}")


def find_unusable_terms(own: NodeClass | None, pools: Iterable[NodePool]) -> Iterator[NodeClassProblem]:
    """Yield a warning if the class selects reservations and none of its ``pools`` allows reserved capacity."""
    if own is None or not own.capacity_reservation_terms:
        return
    if not any(names.RESERVED in one.requirements.on(names.CAPACITY_TYPE) for one in pools):
        message = (
            f"{SPEC}: no pool of this class allows {names.CAPACITY_TYPE} {names.RESERVED}, so that no node uses the "
            "reservations: add it to the requirements of a pool"
        )
        yield NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotUsed", message, "warning")


def _name(reservations: Sequence[CapacityReservation]) -> str:
    shown = [
        f"{one.id} ({one.instance_type} in {one.zone})" if one.zone else one.id for one in reservations[:MOST_NAMED]
    ]
    more = f" and {len(reservations) - MOST_NAMED} more" if len(reservations) > MOST_NAMED else ""
    return ", ".join(shown) + more


def explain_unselected(
    own: NodeClass | None, unselected: Iterable[CapacityReservation], *, listed: bool
) -> NodeClassProblem:
    """Return the warning of a class with pools that allow reserved capacity, of which no class uses the ``unselected``
    reservations of the catalogue. ``listed`` is whether a cluster has looked for those of its terms.
    """
    named = ", ".join(sorted({one.id for one in unselected} - {""})) or "the capacity reservations"
    there = f"a cluster launches no node of it in {named} of the catalogue, and this plan has none there"
    if own is None:
        message = f"it is not among the files, so that it selects no capacity reservations: {there}: add the class"
    elif own.kind != "EC2NodeClass":
        message = f"only an EC2NodeClass selects capacity reservations: {there}"
    else:
        unset = not own.capacity_reservation_terms
        why = f"{SPEC}: it is not set: " if unset else f"{STATUS if listed else SPEC}: "
        message = f"{why}{there}: add it to the terms, or take it out of the file"
    return NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotSelected", message, "warning")


def _note(message: str) -> NodeClassProblem:
    return NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotKnown", message, "info")


def _how_to_add(example: CapacityReservation | None = None) -> str:
    """Return how a catalogue names the free instances of a reservation."""
    offering = {
        "zone": (example and example.zone) or "us-east-1a",
        "capacityType": names.RESERVED,
        "pricePerHour": 0,
        "reservation": example.id if example else "cr-0123456789abcdef0",
        "count": 1,
    }
    where = (example and example.instance_type) or "its instance type"
    return (
        f"; to use one, give --catalogue FILE in which {where} has the offering {json.dumps(offering)}, with the "
        "number of free instances as count"
    )


@dataclass(frozen=True, slots=True)
class FreeReservations:
    """Which pools can have nodes in capacity reservations. ``counted`` is whether the catalogue file has any, and
    ``catalogue`` is that of the plan, without them.
    """

    catalogue: Catalogue
    classes: Mapping[str, ResolvedNodeClass]
    counted: bool

    def has(self, pool: NodePool) -> bool:
        """Return whether the class of the pool has a free instance in a reservation that the pool allows."""
        resolved = self.classes.get(pool.class_ref.key)
        return resolved is not None and any(
            one.available for one in find_allowed_reservations(pool, resolved.reservations, self.catalogue)
        )

    def lacking(self, pool: NodePool) -> str:
        """Return why such a pool has no free instance."""
        if not self.counted:
            return NONE_KNOWN
        return (
            f"no capacity reservation of the catalogue that its {pool.class_ref.described} selects has a free instance "
            "for it"
        )

    def remedy(self, pool: NodePool) -> str:
        """Return why such a pool has no free instance, and what to do."""
        return f"{self.lacking(pool)}: add {'one' if self.counted else 'them'}, or allow on-demand, too"

    def reserved_only(self, pool: NodePool) -> str:
        """Return why a pool that allows no other capacity has no nodes; empty if reservations are not the reason."""
        if not allows_only_reserved(pool.requirements) or self.has(pool):
            return ""
        misspelt = find_unsatisfiable_requirements(pool, self.catalogue)
        return "" if misspelt else f"{RESERVED_ONLY}{self.remedy(pool)}"


def report_missing_reservations(made: Plan, snapshot: Snapshot, free: FreeReservations) -> Plan:
    """Return the plan with the missing reservations as the reason, where pools or pods allow no other capacity."""
    pods = {pod.key: pod for pod in snapshot.pods}
    only = {pool.key: why for pool in snapshot.pools if (why := free.reserved_only(pool))}
    by_name = {pool.name: pool for pool in snapshot.pools}

    def explain(one: PendingPod, reason: Reason) -> Reason:
        pool = by_name.get(reason.pool)
        if pool is None:
            return reason
        if pool.key in only and (reason.reason == NO_TYPE_AVAILABLE or reason.reason.startswith(RESERVED_ONLY)):
            return Reason(reason.pool, only[pool.key])
        lacks = one.pod in pods and _lacks_reservation(pods[one.pod], pool, reason, free)
        return Reason(reason.pool, f"the pod requires {lacks}") if lacks else reason

    pending = (replace(one, reasons=tuple(explain(one, each) for each in one.reasons)) for one in made.pending)
    found = [
        InvalidManifest(
            pool.key,
            pool.requirement_field(names.CAPACITY_TYPE),
            write_values(pool.requirements.on(names.CAPACITY_TYPE)),
            free.remedy(pool),
            "warning",
        )
        for pool in snapshot.pools
        if pool.key in only
    ]
    # The planner names the class only, and the catalogue of a plan without AWS has no reservations of a class.
    own = tuple(one for one in made.problems if one.object not in only or not one.remedy.startswith(RESERVED_ONLY))
    made = replace(made, problems=own)
    made = _explain_unlaunched(replace(made, pending=tuple(pending)), snapshot.pools, only)
    return replace(made, problems=(*made.problems, *found))


def _explain_unlaunched(made: Plan, pools: Iterable[NodePool], only: Mapping[str, str]) -> Plan:
    """Return the plan with the missing reservations as the reason of the pools, by key, that lack nodes."""
    reported = {pool.key: pool.claim or pool.key for pool in pools}
    unlaunched, problems = list(made.unlaunched), list(made.problems)
    for at, one in enumerate(unlaunched):
        if one.owner in only and (one.reason.endswith(NONE_AVAILABLE) or one.reason.startswith(RESERVED_ONLY)):
            unlaunched[at] = replace(one, reason=only[one.owner])
            problems = [
                replace(each, remedy=each.remedy.replace(one.reason, only[one.owner]))
                if each.object == reported[one.owner]
                else each
                for each in problems
            ]
    return replace(made, unlaunched=tuple(unlaunched), problems=tuple(problems))


def _lacks_reservation(pod: Pod, pool: NodePool, reason: Reason, free: FreeReservations) -> str:
    """Return the reserved capacity that a pod requires and the pool lacks, with the cause; empty if this is not the
    reason why the pod stays pending."""
    if names.RESERVED not in pool.requirements.on(names.CAPACITY_TYPE):
        return ""
    if names.CAPACITY_TYPE in reason.reason and _requires_reserved(pod) and not free.has(pool):
        return f"reserved capacity, and {free.lacking(pool)}"
    if names.RESERVATION in reason.reason:
        asked = sorted({one for each in pod.constraints.on_new_nodes() for one in _named(each)})
        if mine := [one for one in asked if _selects(pool, one, free)]:
            none = NONE_KNOWN if not free.counted else "the catalogue has no free instance in it (--catalogue)"
            return f"the capacity reservation {' or '.join(mine)}, and {none}"
    return ""


def _named(requirements: Requirements) -> Iterable[str]:
    values = requirements.on(names.RESERVATION)
    return values if values.finite else ()


def _selects(pool: NodePool, reservation: str, free: FreeReservations) -> bool:
    """Return whether the class of the pool selects a reservation of which the catalogue has no free instance."""
    resolved = free.classes.get(pool.class_ref.key)
    declared = resolved.reservations if resolved else ()
    return any(one.id == reservation and not one.available for one in declared)


def _requires_reserved(pod: Pod) -> bool:
    alternatives = pod.constraints.on_new_nodes()
    return bool(alternatives) and all(allows_only_reserved(one) for one in alternatives)
