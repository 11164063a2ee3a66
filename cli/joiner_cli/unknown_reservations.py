"""Capacity reservations in plans without AWS.

How many instances of a reservation are free is in no manifest: the status of a class names its reservations only. So a
plan uses the reservations of the catalogue file, where they are offerings with a ``count``, and says of all others that
it uses none of them.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, Offering
from joiner.cluster import Pod, Requirements
from joiner.planning import PendingPod, Plan, Reason, Snapshot
from joiner.planning.model.node_offers import NO_TYPE_AVAILABLE
from joiner.pools import InvalidManifest, NodeClass, NodeClassProblem
from joiner.pools.capacity_reservations import CapacityReservation

NONE_KNOWN: Final = "the catalogue has no capacity reservations (--catalogue)"
RESERVED_POOL: Final = f"it allows reserved capacity only, and {NONE_KNOWN}: add them, or allow on-demand, too"
RESERVED_POD: Final = f"the pod requires reserved capacity, and {NONE_KNOWN}"
SPEC: Final = "spec.capacityReservationSelectorTerms"
STATUS: Final = "status.capacityReservations"
MOST_NAMED: Final = 5


def list_reserved_offerings(catalogue: Catalogue) -> list[Offering]:
    """Return the offerings of capacity reservations that the catalogue file has."""
    offerings = (one for known in catalogue.types.values() for one in known.offerings)
    return [one for one in offerings if one.capacity_type == names.RESERVED]


def find_unknown_reservations(
    own: NodeClass,
    declared: Collection[CapacityReservation] | None,
    reserved: Collection[Offering],
    *,
    ended: Collection[str] = (),
) -> Iterator[NodeClassProblem]:
    """Yield what the plan does not know of the reservations of a class, and what it assumes.

    ``declared`` are the active ones of the status, None if no cluster has looked for any, and ``ended`` the ids of the
    others; ``reserved`` are the reserved offerings of the catalogue.
    """
    counted = {one.reservation for one in reserved}
    if declared is None:
        if own.capacity_reservation_terms:
            assumed = "assumes that they select those of the catalogue" if reserved else "uses none"
            yield _note(f"{SPEC}: capacity reservations are not looked up: this plan {assumed}{_how_to_add(reserved)}")
        elif counted:
            yield _unselected(f"{SPEC}: it is not set, so that a cluster launches no node of it", counted)
        return
    for one in ended:
        yield _note(f"{STATUS}: {one} is expiring: it takes no new nodes")
    missing = [one for one in declared if one.id not in counted]
    if missing:
        named = ", ".join(f"{one.id} ({one.instance_type} in {one.zone})" for one in missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        unknown = "the status does not say how many instances are free"
        yield _note(f"{STATUS}: {unknown} in {named}{more}: this plan uses none of them{_how_to_add((), missing[0])}")
    if others := counted - {one.id for one in declared} - {""}:
        yield _unselected(f"{STATUS}: a cluster launches no node of it", others)


def _unselected(why: str, reservations: Collection[str]) -> NodeClassProblem:
    named = ", ".join(filter(None, sorted(reservations))) or "the capacity reservations"
    message = f"{why} in {named} of the catalogue, as this plan does: add it to the terms, or take it out of the file"
    return NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotSelected", message, "warning")


def _note(message: str) -> NodeClassProblem:
    return NodeClassProblem("ValidationSucceeded", "CapacityReservationsNotKnown", message, "info")


def _how_to_add(reserved: Collection[Offering], example: CapacityReservation | None = None) -> str:
    """Return how a catalogue names the free instances of a reservation; empty if it has reservations."""
    if reserved:
        return ""
    offering = {
        "zone": example.zone if example else "us-east-1a",
        "capacityType": names.RESERVED,
        "pricePerHour": 0,
        "reservation": example.id if example else "cr-0123456789abcdef0",
        "count": 1,
    }
    where = example.instance_type if example else "its instance type"
    return (
        f"; to use one, give --catalogue FILE in which {where} has the offering {json.dumps(offering)}, with the "
        "number of free instances as count"
    )


def report_missing_reservations(made: Plan, snapshot: Snapshot) -> Plan:
    """Return the plan with the missing reservations as the reason, where pools or pods allow no other capacity."""
    pods = {pod.key: pod for pod in snapshot.pods}
    only = {pool.name: pool for pool in snapshot.pools if _only_reserved(pool.requirements)}
    allowing = {one.name for one in snapshot.pools if names.RESERVED in one.requirements.on(names.CAPACITY_TYPE)}
    pending = []
    for one in made.pending:
        required = one.pod in pods and _requires_reserved(pods[one.pod])
        reasons = []
        for reason in one.reasons:
            if reason.pool in only and reason.reason == NO_TYPE_AVAILABLE:
                reasons.append(Reason(reason.pool, RESERVED_POOL))
            elif required and reason.pool in allowing and names.CAPACITY_TYPE in reason.reason:
                reasons.append(Reason(reason.pool, RESERVED_POD))
            else:
                reasons.append(reason)
        pending.append(PendingPod(one.pod, tuple(reasons)))
    found = [
        InvalidManifest(
            pool.key,
            f"{'spec' if pool.legacy or pool.claim else 'spec.template.spec'}.requirements[{names.CAPACITY_TYPE}]",
            names.RESERVED,
            f"{NONE_KNOWN}: add them, or allow on-demand, too",
            "warning",
        )
        for pool in only.values()
    ]
    return replace(made, pending=tuple(pending), problems=(*made.problems, *found))


def _requires_reserved(pod: Pod) -> bool:
    alternatives = pod.constraints.on_new_nodes()
    return bool(alternatives) and all(_only_reserved(one) for one in alternatives)


def _only_reserved(requirements: Requirements) -> bool:
    allowed = requirements.on(names.CAPACITY_TYPE)
    return names.RESERVED in allowed and names.ON_DEMAND not in allowed and names.SPOT not in allowed
