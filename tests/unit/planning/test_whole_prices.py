"""Plans reckon with the whole price of a node: instance, volumes, public address, and its running."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from joiner.pools.additional_node_costs import NodeCosts
from tests.unit.planning.drawn_clusters import ZONES, instance_type, node_pool, pods

TWINS = {"small": instance_type("small", 2, 8, 0.05), "large": instance_type("large", 16, 64, 0.4)}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
COSTS = NodeCosts(volumes=0.002, address=0.005, running=0.01)


def planned(
    lists: Mapping[str, Sequence[Any]],
    *,
    costs: NodeCosts | None,
    public: bool = False,
    ceilings: Ceilings | None = None,
) -> Plan:
    subnets = tuple(Subnet(f"subnet-{zone}", zone, public=public) for zone in ZONES)
    resolved = ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets, costs=costs)
    return plan(
        Snapshot.from_lists(lists),
        Catalogue.from_json(TWINS),
        classes={resolved.key: resolved},
        ceilings=ceilings or Ceilings(),
    )


def shop(number: int, **annotations: str) -> dict[str, Sequence[Any]]:
    pool = dict(node_pool(requirements=[ON_DEMAND]))
    pool["metadata"] = {"name": "default", "uid": "u", "annotations": annotations}
    return {"pods": pods(number, cpu="1700m", memory="6Gi"), "nodepools": [pool]}


def test_what_every_node_costs_makes_one_large_node_cheaper_than_many_small_ones() -> None:
    made = planned(shop(9), costs=COSTS)

    assert [(node.instance_type, node.price_per_hour, node.price_parts) for node in made.nodes] == [
        ("large", 0.412, {"instance": 0.4, "volumes": 0.002, "address": 0.0, "running": 0.01})
    ]
    assert made.price_parts == {"instance": 0.4, "volumes": 0.002, "address": 0.0, "running": 0.01}
    assert made.optimal


def test_without_costs_a_node_has_the_price_of_its_instance() -> None:
    made = planned(shop(1), costs=None)

    assert made.nodes[0].price_parts == {"instance": 0.05, "volumes": 0.0, "address": 0.0, "running": 0.0}


@pytest.mark.parametrize(("public", "price"), [(False, 0.062), (True, 0.067)])
def test_a_public_address_counts_where_the_subnet_gives_one(public: bool, price: float) -> None:
    assert planned(shop(1), costs=COSTS, public=public).price_per_hour == price


def test_the_annotation_of_a_pool_replaces_the_price_of_running() -> None:
    made = planned(shop(1, **{"joiner.dev/node-overhead-price": "0.2"}), costs=COSTS)

    assert made.nodes[0].price_parts == {"instance": 0.05, "volumes": 0.002, "address": 0.0, "running": 0.2}


def test_the_ceiling_of_the_price_counts_whole_prices() -> None:
    made = planned(shop(1), costs=COSTS, ceilings=Ceilings(price_per_hour=0.06))

    assert made.nodes == ()
    assert "the cluster's ceiling of 0.06 $/h" in str(made.pending[0].reasons[0])


def test_a_plan_is_read_back_with_the_parts_of_its_price() -> None:
    made = planned(shop(9), costs=COSTS, public=True)

    assert Plan.from_json(made.to_json()).price_parts == made.price_parts
