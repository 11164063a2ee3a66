"""Plans launch no more nodes in a subnet than it has free addresses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot, plan
from joiner.pools import ResolvedNodeClass, Subnet
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import CLASSES, ZONES, instance_type, node_pool, pods, spread

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SPOT = {**ON_DEMAND, "values": ["spot"]}
ANOTHER = {name: instance_type(name, 4, 16, 0.2) for name in ("only", "other")}


def in_small_subnets(*free: int | None) -> dict[str, ResolvedNodeClass]:
    """Return the class of the pool with so many free addresses in the subnet of each zone."""
    subnets = tuple(Subnet(f"subnet-{zone}", zone, free_ips=left) for zone, left in zip(ZONES, free, strict=False))
    return {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}


def planned_in(classes: Mapping[str, ResolvedNodeClass], count: int = 6, *more: Any, **fields: Any) -> Plan:
    """Return the plan for pods of one node each, with these fields, and for more pods."""
    lists: dict[str, list[Any]] = {
        "pods": [*pods(count, cpu="3", **fields), *more],
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=classes)
    assert check_plan(lists, ANOTHER, made.to_json()) == []
    return made


def test_a_subnet_gets_no_more_nodes_than_it_has_free_addresses() -> None:
    everywhere, made = planned_in(CLASSES), planned_in(in_small_subnets(2, 500))

    assert Counter(node.zone for node in everywhere.nodes)[ZONES[0]] > 2
    assert Counter(node.zone for node in made.nodes)[ZONES[0]] <= 2
    assert (len(made.nodes), made.pending) == (6, ())


def test_pods_of_nodes_without_an_address_stay_pending_and_name_the_subnet() -> None:
    made = planned_in(in_small_subnets(2, 1))

    assert Counter(node.zone for node in made.nodes) == {ZONES[0]: 2, ZONES[1]: 1}
    assert made.lower_bound_per_hour <= made.price_per_hour
    assert {str(reason) for one in made.pending for reason in one.reasons} <= {
        f"default: the subnet subnet-{zone} has {free} free addresses: use larger or more subnets"
        "; the next plan tries again"
        for zone, free in zip(ZONES, (2, 1), strict=False)
    }
    assert len(made.pending) == 3


def test_pods_move_to_subnets_with_enough_addresses_if_that_costs_nothing() -> None:
    made = planned_in(in_small_subnets(6, 500))

    assert Counter(node.zone for node in made.nodes)[ZONES[0]] <= 3
    assert made.price_per_hour == planned_in(CLASSES).price_per_hour


def test_subnets_whose_addresses_are_unknown_limit_nothing() -> None:
    unknown, everywhere = planned_in(in_small_subnets(None, None)), planned_in(CLASSES)

    assert [(node.name, node.zone) for node in unknown.nodes] == [(node.name, node.zone) for node in everywhere.nodes]


def test_pods_of_a_spread_do_not_stay_without_the_nodes_that_have_no_address() -> None:
    made = planned_in(in_small_subnets(500, 1, 1), topologySpreadConstraints=[spread()])

    assert Counter(node.zone for node in made.nodes) == {ZONES[0]: 2, ZONES[1]: 1, ZONES[2]: 1}
    assert len(made.pending) == 2


def test_nodes_of_high_priority_get_the_addresses() -> None:
    urgent = pods(2, "urgent", cpu="3", priority=1000)

    made = planned_in(in_small_subnets(2, 0, 0), 6, *urgent)

    assert {str(pod) for node in made.nodes for pod in node.pods} == {"default/urgent-0", "default/urgent-1"}


def of_class(name: str, pool: Any, *, weight: int = 0) -> Any:
    """Return the pool with a node class of this name."""
    pool = deepcopy(pool)
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
    return {**pool, "spec": {**pool["spec"], **({"weight": weight} if weight else {})}}


def planned_with(
    pools: Sequence[Any], classes: Mapping[str, ResolvedNodeClass], count: int, types: Any = ANOTHER, **fields: Any
) -> Plan:
    lists: dict[str, list[Any]] = {"pods": pods(count, **fields), "nodepools": list(pools)}
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(types), classes=classes)
    assert check_plan(lists, types, made.to_json()) == []
    return made


def count_possible_nodes(made: Plan) -> Counter[str]:
    """Return how many nodes EC2 may launch in each zone, whatever it chooses."""
    return Counter(zone for node in made.nodes for zone in {offer.zone for offer in (node.offer, *node.alternatives)})


@pytest.mark.parametrize("free", [(6, 500, 500), (4, 3, 500), (2, 2, 2), (3, 4, 5), (500, 500, 500)])
@pytest.mark.parametrize("market", [SPOT, ON_DEMAND])
def test_ec2_cannot_launch_more_nodes_in_a_zone_than_its_subnets_have_addresses(
    free: tuple[int, int, int], market: Any
) -> None:
    made = planned_with([node_pool(requirements=[market])], in_small_subnets(*free), 6, cpu="3")

    possible = count_possible_nodes(made)
    assert (len(made.nodes), made.pending) == (6, ())
    assert all(possible[zone] <= most for zone, most in zip(ZONES, free, strict=True)), (possible, free)


def test_spot_nodes_may_be_launched_in_all_zones_as_long_as_their_addresses_suffice() -> None:
    made = planned_with([node_pool(requirements=[SPOT])], in_small_subnets(6, 2, 500), 6, cpu="3")

    assert count_possible_nodes(made) == {ZONES[0]: 6, ZONES[1]: 2, ZONES[2]: 6}


def test_pods_of_a_node_without_an_address_get_a_node_of_another_pool() -> None:
    pools = [
        of_class("small", node_pool("first", requirements=[ON_DEMAND]), weight=10),
        of_class("large", node_pool("second", requirements=[ON_DEMAND])),
    ]
    large = tuple(Subnet(f"large-{zone}", zone, free_ips=most) for zone, most in zip(ZONES, (1, 1, 9), strict=True))
    classes = {
        "EC2NodeClass/small": ResolvedNodeClass(
            "small", "EC2NodeClass", subnets=in_small_subnets(1, 1, 0)["EC2NodeClass/default"].subnets
        ),
        "EC2NodeClass/large": ResolvedNodeClass("large", "EC2NodeClass", subnets=large),
    }

    made = planned_with(pools, classes, 6, cpu="3")

    assert made.pending == ()
    assert Counter(node.pool for node in made.nodes) == {"NodePool/first": 2, "NodePool/second": 4}
    assert made.lower_bound_per_hour <= made.price_per_hour


def test_pods_of_a_node_without_an_address_use_free_capacity_of_the_other_nodes() -> None:
    """One pod a zone costs the same with and without the small pods: they fill the nodes that stay."""
    small, large = instance_type("small", 2, 8, 0.1), instance_type("large", 8, 32, 1.0)
    lists: dict[str, list[Any]] = {
        "pods": [*pods(2, "big", cpu="5"), *pods(2, "little", cpu="1500m")],
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }
    types = {"small": small, "large": large}

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(types), classes=in_small_subnets(1, 1, 0))

    assert check_plan(lists, types, made.to_json()) == []
    assert sorted(node.instance_type for node in made.nodes) == ["large", "large"]
    assert made.pending == ()


def test_all_subnets_of_a_zone_count() -> None:
    subnets = tuple(Subnet(f"subnet-{number}", ZONES[0], free_ips=2) for number in range(3))
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}

    enough = planned_with([node_pool(requirements=[ON_DEMAND])], classes, 6, cpu="3")
    short = planned_with([node_pool(requirements=[ON_DEMAND])], classes, 7, cpu="3")

    assert (len(enough.nodes), enough.pending) == (6, ())
    assert len(short.nodes) == 6
    assert {str(reason) for one in short.pending for reason in one.reasons} == {
        "default: the subnets subnet-0 and subnet-1 and subnet-2 have 6 free addresses: use larger or more subnets"
        "; the next plan tries again"
    }


def test_classes_that_share_a_subnet_share_its_addresses() -> None:
    """One class has two subnets, the other one of these: together they have four addresses."""
    both = tuple(Subnet(name, ZONES[0], free_ips=2) for name in ("shared", "own"))
    pools = [
        of_class("both", node_pool("wide", requirements=[ON_DEMAND], taints=[])),
        of_class("one", node_pool("narrow", requirements=[ON_DEMAND])),
    ]
    classes = {
        "EC2NodeClass/both": ResolvedNodeClass("both", "EC2NodeClass", subnets=both),
        "EC2NodeClass/one": ResolvedNodeClass("one", "EC2NodeClass", subnets=both[:1]),
    }
    lists: dict[str, list[Any]] = {
        "pods": [
            *pods(3, "a", cpu="3", nodeSelector={"karpenter.sh/nodepool": "wide"}),
            *pods(3, "b", cpu="3", nodeSelector={"karpenter.sh/nodepool": "narrow"}),
        ],
        "nodepools": pools,
    }

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=classes)

    assert check_plan(lists, ANOTHER, made.to_json()) == []
    assert len(made.nodes) == 4
    assert Counter(node.pool for node in made.nodes)["NodePool/narrow"] <= 2
