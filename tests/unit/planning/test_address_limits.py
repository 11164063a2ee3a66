"""Plans launch no more nodes in a subnet than it has free addresses."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot, plan
from joiner.pools import ResolvedNodeClass, Subnet
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import CLASSES, ZONES, instance_type, node_pool, pods, spread

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
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
