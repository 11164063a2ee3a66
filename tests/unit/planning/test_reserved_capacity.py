"""Capacity reservations of a class in plans: the first choice as far as they go, and only where the pool allows
them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from joiner import names
from joiner.catalogue import Catalogue, find_unsatisfiable_requirements
from joiner.planning import Plan, PlanTolerances, Snapshot
from joiner.planning.planner import plan
from joiner.pools import CapacityReservation
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, Json, node_pool, pods

ANY: Final = ("reserved", "on-demand")
RESERVED: Final = CapacityReservation("cr-1", "g.large", ZONES[0], 2)


def made(
    count: int,
    *reservations: CapacityReservation,
    allowed: Sequence[str] = ANY,
    closed: Sequence[tuple[str, str, str]] = (),
) -> Plan:
    """Plan for pods of which one fits on a node of type g.large."""
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": list(allowed)}
    lists = cluster(pods(count, cpu="1500m"), node_pool(requirements=[fields]))
    classes = {key: replace(one, reservations=reservations) for key, one in CLASSES.items()}
    return plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), closed, classes=classes)


def used(found: Plan) -> Counter[tuple[str, str]]:
    return Counter((node.capacity_type, node.labels.get(names.RESERVATION, "")) for node in found.nodes)


def test_reservations_are_used_first_as_far_as_they_go() -> None:
    found = made(3, RESERVED)

    assert found.pending == ()
    assert used(found)["reserved", "cr-1"] == 2
    assert used(found).total() == 3


def test_a_node_in_a_reservation_has_its_labels_and_costs_next_to_nothing() -> None:
    (node,) = made(1, replace(RESERVED, interruptible=True)).nodes

    assert {name: node.labels[name] for name in (names.RESERVATION, names.RESERVATION_TYPE)} == {
        "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
        "karpenter.k8s.aws/capacity-reservation-type": "default",
    }
    assert node.labels["karpenter.k8s.aws/capacity-reservation-interruptible"] == "true"
    assert 0 < node.price_per_hour < 1e-6
    assert [one.capacity_type for one in node.alternatives] == ["reserved"]


def test_pools_that_do_not_allow_reserved_capacity_use_none() -> None:
    assert {kind for kind, _ in used(made(2, RESERVED, allowed=("on-demand",)))} == {"on-demand"}


def test_a_full_or_closed_reservation_is_not_used() -> None:
    closed = [("reserved", "g.large", ZONES[0])]

    assert {kind for kind, _ in used(made(2, replace(RESERVED, available=0)))} == {"on-demand"}
    assert {kind for kind, _ in used(made(2, RESERVED, closed=closed))} == {"on-demand"}


def test_a_full_reservation_does_not_close_another_of_the_same_type_and_zone() -> None:
    full = [("reserved", "g.large", f"{ZONES[0]}@cr-1")]

    found = made(2, RESERVED, replace(RESERVED, id="cr-2"), closed=full)

    assert used(found) == Counter({("reserved", "cr-2"): 2})


def test_pods_choose_among_reservations_by_label() -> None:
    other = replace(RESERVED, id="cr-2", kind="capacity-block")
    fields: Json = {"nodeSelector": {names.RESERVATION_TYPE: "capacity-block"}}
    requirement = {"key": names.CAPACITY_TYPE, "operator": "In", "values": list(ANY)}
    lists = cluster(pods(2, cpu="1500m", **fields), node_pool(requirements=[requirement]))
    classes = {key: replace(one, reservations=(RESERVED, other)) for key, one in CLASSES.items()}

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes)

    assert used(found) == Counter({("reserved", "cr-2"): 2})


def test_a_plan_of_reserved_nodes_only_is_simplified_like_any_other() -> None:
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
    lists = cluster(pods(1), node_pool(requirements=[fields]))
    classes = {key: replace(one, reservations=(RESERVED,)) for key, one in CLASSES.items()}

    found = plan(
        Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes, tolerances=PlanTolerances()
    )

    assert used(found) == {("reserved", "cr-1"): 1}


@pytest.mark.parametrize("reservations", [(), (RESERVED,)])
def test_a_pool_of_reserved_nodes_only_is_valid_whether_its_class_has_a_reservation_now_or_not(
    reservations: tuple[CapacityReservation, ...],
) -> None:
    """The catalogue has no reservations: they are those of classes, and may come and go."""
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
    snapshot = Snapshot.from_lists(cluster(pods(1), node_pool(requirements=[fields])))
    catalogue = Catalogue.from_json(CATALOGUE)
    classes = {key: replace(one, reservations=reservations) for key, one in CLASSES.items()}

    found = plan(snapshot, catalogue, classes=classes)

    assert len(found.nodes) == len(reservations)
    assert [one for one in found.problems if ".requirements" in one.field and one.severity == "error"] == []
    assert find_unsatisfiable_requirements(snapshot.pools[0], catalogue) is None


def test_a_pool_of_reserved_nodes_on_dedicated_hardware_meets_nothing() -> None:
    wanted = ((names.CAPACITY_TYPE, "reserved"), (names.TENANCY, "dedicated"))
    fields = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted]
    (pool,) = Snapshot.from_lists(cluster((), node_pool(requirements=fields))).pools

    assert find_unsatisfiable_requirements(pool, Catalogue.from_json(CATALOGUE)) is not None
