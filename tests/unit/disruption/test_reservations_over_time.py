"""A capacity block and an ordinary reservation on a modelled clock: until when nodes are launched into them, and what
becomes of the nodes.

EC2 terminates the instances of a block in its last half hour. Those of an ordinary reservation run on, in no
reservation.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from joiner import names
from joiner.catalogue import Offering
from joiner.cluster import Requirements
from joiner.disruption.drift import DesiredNodes, Drift, find_drift
from joiner.disruption.ended_capacity_reservations import has_left_reservation, relabel_claim
from joiner.launching.reservation_matching import read_reservations
from joiner.pools import NodeClaim, NodePool
from joiner.pools.drift_hashes import build_hash_annotations
from tests.unit.disruption.test_drift import CLASS, DESIRED, INSTANCE, M5, POOL, RESOLVED, claim

END = datetime(2026, 11, 21, 14, tzinfo=UTC)
STEP = timedelta(minutes=5)
ID = "cr-0123456789abcdef0"
SOLD = replace(M5, offerings=(Offering("us-east-1a", "on-demand", 0.1),))


def minutes_before_the_end() -> Iterator[tuple[int, datetime]]:
    """Yield each step of the clock, from an hour before the end to a quarter of an hour after it."""
    at = END - timedelta(hours=1)
    while at <= END + timedelta(minutes=15):
        yield int((END - at).total_seconds() // 60), at
        at += STEP


def described(kind: str, at: datetime) -> list[dict[str, Any]]:
    """Return EC2's answer to a query for active reservations."""
    one = {
        "CapacityReservationId": ID,
        "InstanceType": "m5.large",
        "AvailabilityZone": "us-east-1a",
        "AvailableInstanceCount": 1,
        "ReservationType": kind,
        "EndDate": END,
        "State": "active",
    }
    return [one] if at < END else []


def desired(kind: str, at: datetime, pool: NodePool) -> DesiredNodes:
    """Return what would be launched at this time, and an instance that EC2 leaves as long as it does."""
    found = read_reservations(described(kind, at), f"{at:%Y-%m-%dT%H:%M:%S}.000Z")
    return replace(
        DESIRED,
        pools={pool.key: pool},
        resolved={RESOLVED.key: replace(RESOLVED, reservations=found)},
        catalogue=replace(DESIRED.catalogue, types={SOLD.name: SOLD}),
        instances={"i-1": replace(INSTANCE, reservation=ID if at < END else "")},
    )


def reserved(pool: NodePool, kind: str) -> NodeClaim:
    of_reservation = {names.CAPACITY_TYPE: names.RESERVED, names.RESERVATION: ID, names.RESERVATION_TYPE: kind}
    labels = {**claim().labels, **of_reservation, names.RESERVATION_INTERRUPTIBLE: "false"}
    return claim(labels=labels, annotations=build_hash_annotations(pool, CLASS))


def follow(kind: str, pool: NodePool) -> list[tuple[int, bool, str, str]]:
    """Return the changes: minutes before the end, whether nodes are launched into the reservation, the capacity type
    of the node, and why it is drifted."""
    node, seen = reserved(pool, kind), list[tuple[int, bool, str, str]]()
    for left, at in minutes_before_the_end():
        now = desired(kind, at, pool)
        if has_left_reservation(node, now.instances["i-1"], at):
            node = relabel_claim(node)
        found = find_drift(node, now, at)
        reason = found.reason if isinstance(found, Drift) else ""
        state = (left, bool(now.resolved[RESOLVED.key].reservations), node.capacity_type, reason)
        if not seen or seen[-1][1:] != state[1:]:
            seen.append(state)
    return seen


def test_a_block_takes_no_node_in_its_last_forty_minutes_and_its_nodes_are_drifted_then() -> None:
    assert follow("capacity-block", POOL)[:2] == [
        (60, True, "reserved", ""),
        (40, False, "reserved", "CapacityReservationDrift"),
    ]


def test_the_nodes_of_a_reservation_that_ends_become_on_demand_nodes() -> None:
    assert follow("default", POOL) == [(60, True, "reserved", ""), (0, False, "on-demand", "")]


def test_a_pool_of_reserved_nodes_only_finds_them_drifted_at_the_end() -> None:
    required = {"kubernetes.io/arch": "amd64", names.CAPACITY_TYPE: names.RESERVED}
    pool = replace(POOL, requirements=Requirements.from_labels(required))

    assert follow("default", pool) == [
        (60, True, "reserved", ""),
        (0, False, "on-demand", "RequirementsDrifted"),
    ]


def test_relabelled_nodes_keep_no_label_of_the_reservation() -> None:
    node = relabel_claim(reserved(POOL, "default"))

    assert node.labels == {**claim().labels, names.CAPACITY_TYPE: names.ON_DEMAND}
