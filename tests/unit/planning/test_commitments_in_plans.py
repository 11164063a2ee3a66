"""Reserved instances and savings plans in plans: filled first as far as they go, without what running nodes use."""

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.commitments import Commitment
from joiner.planning import Plan, Snapshot, plan
from joiner_cli.rendering.plan_table import render_plan_summary
from tests.unit.planning.checked import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, Json, node, node_pool, pods
from tests.unit.planning.test_in_flight import claim

LARGE: Final = "g.large"
LIST_PRICE: Final = 0.07


def made(count: int, *commitments: Commitment, allowed: str = "on-demand", **lists: list[Json]) -> Plan:
    """Plan for pods of which one fits on a node of type g.large."""
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": [allowed]}
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=commitments)
    waiting = cluster(pods(count, cpu="1500m"), node_pool(requirements=[fields]), **lists)
    return plan(Snapshot.from_lists(waiting), catalogue, classes=CLASSES)


def covered(found: Plan) -> Counter[str]:
    """Count the nodes that commitments cover, by type."""
    return Counter(one.instance_type for one in found.nodes if one.offer.committed)


def of_type(name: str, kind: str = LARGE, *, zone: str = ZONES[0], **labels: str) -> Json:
    """Return a full node of an instance type."""
    taint = {"key": "full", "effect": "NoSchedule"}
    return node(name, zone=zone, taints=[taint], labels={names.INSTANCE_TYPE: kind, **labels})


def test_commitments_are_used_first_as_far_as_they_go() -> None:
    found = made(3, Commitment("reserved-instances/g", 2, {LARGE: 1}))

    assert found.pending == ()
    assert Counter(one.instance_type for one in found.nodes) == {LARGE: 3}
    assert covered(found) == {LARGE: 2}
    assert found.price_per_hour == pytest.approx(LIST_PRICE)
    assert found.price_per_hour + found.committed_per_hour == pytest.approx(3 * LIST_PRICE)
    assert found.lower_bound_per_hour <= found.price_per_hour


def test_a_plan_of_many_pods_uses_commitments_too() -> None:
    found = made(60, Commitment("reserved-instances/g", 30, {LARGE: 1}))

    assert found.pending == ()
    assert covered(found) == {LARGE: 30}
    assert found.price_per_hour == pytest.approx(30 * LIST_PRICE)


def test_a_type_with_a_commitment_is_preferred_to_a_cheaper_type_without() -> None:
    found = made(2, Commitment("reserved-instances/m", 8, {"m.xlarge": 8, "m.2xlarge": 16}))

    assert [one.instance_type for one in found.nodes] == ["m.xlarge"]
    assert covered(found) == {"m.xlarge": 1}


def test_sizes_of_a_family_share_its_units() -> None:
    found = made(6, Commitment("reserved-instances/m", 24, {"m.xlarge": 8, "m.2xlarge": 16}))

    assert sum(8 if one.instance_type == "m.xlarge" else 16 for one in found.nodes) == 24
    assert all(one.offer.committed for one in found.nodes)


def test_reserved_instances_of_a_zone_cover_nodes_of_that_zone_only() -> None:
    found = made(3, Commitment("reserved-instances/g.large", 2, {LARGE: 1}, ZONES[1]))

    assert [one.zone for one in found.nodes if one.offer.committed] == [ZONES[1], ZONES[1]]


def test_what_running_nodes_use_is_not_used_twice() -> None:
    two = Commitment("reserved-instances/g", 2, {LARGE: 1})

    assert covered(made(3, two, nodes=[of_type("n-1")])) == {LARGE: 1}
    assert covered(made(3, two, nodes=[of_type("n-1"), of_type("n-2", zone=ZONES[2])])) == {}
    # A node of another type, of a managed node group on spot, and of Joiner on spot
    spot = of_type("n-2", **{"eks.amazonaws.com/capacityType": "SPOT"})
    own = of_type("n-3", **{names.CAPACITY_TYPE: "spot"})
    assert covered(made(3, two, nodes=[of_type("n-1", "m.xlarge"), spot, own])) == {LARGE: 2}


def test_claims_in_flight_use_commitments() -> None:
    family = Commitment("reserved-instances/m", 8, {"m.xlarge": 8})

    assert covered(made(1, family)) == {"m.xlarge": 1}
    assert covered(made(9, family, nodeclaims=[claim()])) == {}


def test_a_savings_plan_covers_its_dollars_of_any_type_that_it_names() -> None:
    """A commitment of $0.10 an hour covers two nodes at the plan's rate of $0.05."""
    found = made(3, Commitment("savings-plan/1", 100_000, {LARGE: 50_000, "s.large": 60_000}))

    assert covered(found) == {LARGE: 2}


def test_spot_nodes_are_never_covered() -> None:
    found = made(2, Commitment("reserved-instances/g", 2, {LARGE: 1}), allowed="spot")

    assert {one.capacity_type for one in found.nodes} == {"spot"}
    assert covered(found) == {}


def test_an_offer_without_capacity_is_not_planned_because_it_is_paid_for() -> None:
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(Commitment("r", 2, {LARGE: 1}),))
    closed = [("on-demand", LARGE, zone) for zone in ZONES]

    found = plan(Snapshot.from_lists(cluster(pods(2, cpu="1500m"))), catalogue, closed, classes=CLASSES)

    assert found.pending == ()
    assert LARGE not in {one.instance_type for one in found.nodes if one.capacity_type == "on-demand"}


def test_the_summary_names_the_list_price_and_what_commitments_pay() -> None:
    found = made(3, Commitment("reserved-instances/g", 2, {LARGE: 1}))

    assert render_plan_summary(found).splitlines()[1:3] == [
        "$0.0700/h, which is optimal: no plan for these pods costs less.",
        "The list price is $0.2100/h: reserved instances and savings plans pay for $0.1400/h, the instances of 2 "
        "nodes.",
    ]
    shown = found.to_json()
    assert shown["committedPerHour"] == pytest.approx(0.14)
    assert Plan.from_json(shown).committed_per_hour == found.committed_per_hour


def test_without_commitments_a_plan_names_none() -> None:
    found = made(3)

    assert found.committed_per_hour == 0
    assert "committedPerHour" not in found.to_json()
    assert "list price" not in render_plan_summary(found)
