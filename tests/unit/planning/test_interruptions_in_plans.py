"""The price of interruptions in plans: part of a spot node's price in the plan, its bound and the price of nodes that
run.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.total_node_prices import NodePrices
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools.additional_node_costs import NodeCosts
from joiner_cli.rendering.plan_table import describe_parts
from tests.plan_checker.check import check_plan
from tests.unit.planning.drawn_clusters import CLASSES, ZONES, Json, instance_type, node_pool, pods

KINDS: Final = {
    "cheap": instance_type("cheap", 2, 8, 0.09),
    "calm": instance_type("calm", 2, 8, 0.099),
}
"""On-demand prices; spot costs 35 % of them: 0.0315 and 0.03465."""


def catalogue(**interruptions: float) -> Catalogue:
    """Return the two types; spot offerings of those named have this price of interruptions in every zone."""
    found = Catalogue.from_json(KINDS)
    return Catalogue.of(
        each.with_offerings(
            replace(one, interruptions=interruptions.get(each.name, 0.0)) if one.capacity_type == "spot" else one
            for one in each.offerings
        )
        for each in found.types.values()
    )


def lists(number: int = 1) -> dict[str, list[Json]]:
    return {"pods": list(pods(number, cpu="1700m")), "nodepools": [node_pool()]}


def planned(number: int = 1, **interruptions: float) -> Plan:
    return plan(Snapshot.from_lists(lists(number)), catalogue(**interruptions), classes=CLASSES)


def test_a_calm_type_is_preferred_to_a_slightly_cheaper_one_that_is_often_interrupted() -> None:
    assert {one.instance_type for one in planned().nodes} == {"cheap"}
    assert {one.instance_type for one in planned(cheap=0.004).nodes} == {"calm"}


def test_a_type_that_is_interrupted_seldom_keeps_its_advantage_and_the_plan_names_the_part() -> None:
    found = planned(cheap=0.001)

    (node,) = found.nodes
    assert node.instance_type == "cheap"
    assert node.price_per_hour == pytest.approx(0.0325)
    assert node.price_parts == {
        "instance": pytest.approx(0.0315),
        "volumes": 0.0,
        "address": 0.0,
        "running": 0.0,
        "interruptions": 0.001,
    }
    assert found.price_parts["interruptions"] == 0.001
    assert found.to_json()["priceParts"]["interruptions"] == 0.001
    assert Plan.from_json(found.to_json()).nodes[0].costs == NodeCosts(interruptions=0.001)
    assert describe_parts(found) == [
        "Of this: $0.0315 for instances, $0.0010 for interruptions of spot nodes, which are not billed."
    ]


def test_without_history_plans_name_no_such_part() -> None:
    assert "interruptions" not in str(planned().to_json())


def test_on_demand_is_used_where_interruptions_cost_more_than_spot_saves() -> None:
    assert {one.capacity_type for one in planned(cheap=0.07, calm=0.07).nodes} == {"on-demand"}


@pytest.mark.parametrize("number", [1, 7, 60])
def test_the_bound_reckons_with_interruptions_too(number: int) -> None:
    found = planned(number, cheap=0.004, calm=0.002)

    assert found.pending == ()
    assert found.lower_bound_per_hour <= found.price_per_hour + 1e-9
    assert found.gap < 0.01
    assert check_plan(lists(number), catalogue(cheap=0.004, calm=0.002).to_json(), found.to_json()) == []


def test_nodes_that_run_cost_as_much_as_plans_reckon_with() -> None:
    prices = NodePrices(catalogue(cheap=0.004), {}, {})

    def price(kind: str, capacity_type: str) -> float:
        labels: Mapping[str, str] = {
            names.INSTANCE_TYPE: kind,
            names.ZONE: ZONES[0],
            names.CAPACITY_TYPE: capacity_type,
        }
        return prices.of(labels, "NodePool/default")

    assert price("cheap", "spot") == pytest.approx(0.0355)
    assert price("cheap", "on-demand") == pytest.approx(0.09)
    assert price("calm", "spot") == pytest.approx(0.03465)
