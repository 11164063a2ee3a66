"""Plans launch no more nodes in a subnet than it has free addresses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import combinations_with_replacement
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import CLASSES, ZONES, instance_type, node_pool, pods, spread

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SPOT = {**ON_DEMAND, "values": ["spot"]}
IN_ZONES = {"key": "topology.kubernetes.io/zone", "operator": "In"}
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


def test_a_ceiling_that_excludes_every_zone_is_named_before_subnets_without_an_address() -> None:
    lists: dict[str, list[Any]] = {
        "pods": pods(4, cpu="3"),
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }
    made = plan(
        Snapshot.from_lists(lists),
        Catalogue.from_json(ANOTHER),
        classes=in_small_subnets(1, 1, 1),
        ceilings=Ceilings(nodes=1),
    )

    assert len(made.nodes) == 1
    reasons = {str(reason) for one in made.pending for reason in one.reasons}
    assert len(made.pending) == 3
    assert all("ceilings.nodes" in reason for reason in reasons), reasons


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


def test_nodes_without_alternatives_in_other_zones_keep_no_addresses_there() -> None:
    """The on-demand nodes of the first pool are in one zone. The spot nodes of the second one have the other zones."""
    lists: dict[str, list[Any]] = {
        "pods": [
            *pods(60, "fixed", cpu="3", nodeSelector={"karpenter.sh/nodepool": "first"}),
            *pods(4, "free", cpu="3", nodeSelector={"karpenter.sh/nodepool": "second"}),
        ],
        "nodepools": [
            node_pool("first", requirements=[ON_DEMAND, {**IN_ZONES, "values": [ZONES[0]]}]),
            node_pool("second", requirements=[SPOT]),
        ],
    }

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=in_small_subnets(500, 50, 50))

    assert check_plan(lists, ANOTHER, made.to_json()) == []
    assert count_possible_nodes(made) == {ZONES[0]: 64, ZONES[1]: 4, ZONES[2]: 4}


def test_alternatives_that_min_values_requires_stay_in_zones_without_addresses() -> None:
    every_zone = {**IN_ZONES, "values": list(ZONES), "minValues": 3}
    made = planned_with([node_pool(requirements=[SPOT, every_zone])], in_small_subnets(50, 2, 2), 6, cpu="3")

    assert count_possible_nodes(made) == dict.fromkeys(ZONES, 6)


def in_two_classes(first: Sequence[Subnet], second: Sequence[Subnet]) -> dict[str, ResolvedNodeClass]:
    """Return the classes `small` and `large` with these subnets."""
    return {
        f"EC2NodeClass/{name}": ResolvedNodeClass(name, "EC2NodeClass", subnets=tuple(subnets))
        for name, subnets in (("small", first), ("large", second))
    }


def with_mix(pool: Any, mix: str) -> Any:
    return {**pool, "metadata": {**pool["metadata"], "annotations": {"joiner.dev/capacity-mix": mix}}}


@pytest.mark.parametrize(("mix", "spot"), [("spot=50%", 2), ("spot=0%", 0)])
def test_a_pool_keeps_its_mix_with_the_nodes_for_pods_of_another_pool(mix: str, spot: int) -> None:
    pools = [
        of_class("small", node_pool("first", requirements=[ON_DEMAND]), weight=10),
        with_mix(of_class("large", node_pool("second")), mix),
    ]
    large = [Subnet(f"large-{zone}", zone, free_ips=9) for zone in ZONES]
    few = in_small_subnets(1, 1, 0)["EC2NodeClass/default"].subnets

    made = planned_with(pools, in_two_classes(few, large), 6, cpu="3")

    of_second = Counter(node.capacity_type for node in made.nodes if node.pool == "NodePool/second")
    assert (of_second["spot"], of_second.total(), made.pending) == (spot, 4, ())
    (note,) = made.warnings
    assert note.startswith(f"NodePool/second has {spot} of 4 nodes on spot with this plan ")


def test_a_pool_keeps_its_mix_without_the_nodes_that_have_no_address() -> None:
    made = planned_with([with_mix(node_pool(), "spot=50%")], in_small_subnets(2, 1, 0), 6, cpu="3")

    assert Counter(node.capacity_type for node in made.nodes) == {"spot": 2, "on-demand": 1}
    assert Counter(node.zone for node in made.nodes) == {ZONES[0]: 2, ZONES[1]: 1}
    (note,) = made.warnings
    assert note.startswith("NodePool/default has 2 of 3 nodes on spot with this plan ")


def test_pods_of_a_node_without_an_address_get_a_node_of_another_pool() -> None:
    pools = [
        of_class("small", node_pool("first", requirements=[ON_DEMAND]), weight=10),
        of_class("large", node_pool("second", requirements=[ON_DEMAND])),
    ]
    large = [Subnet(f"large-{zone}", zone, free_ips=most) for zone, most in zip(ZONES, (1, 1, 9), strict=True)]
    few = in_small_subnets(1, 1, 0)["EC2NodeClass/default"].subnets

    made = planned_with(pools, in_two_classes(few, large), 6, cpu="3")

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


def test_many_classes_with_other_subnets_change_nothing() -> None:
    """Two classes share the subnet in the middle: for their four nodes there are three addresses."""
    subnets = [Subnet(f"subnet-{number}", ZONES[0], free_ips=1) for number in range(3)]
    others = {
        f"EC2NodeClass/other-{number}": ResolvedNodeClass(
            f"other-{number}", "EC2NodeClass", subnets=(Subnet(f"other-{number}", ZONES[0], free_ips=9),)
        )
        for number in range(8)
    }
    lists: dict[str, list[Any]] = {
        "pods": [
            *pods(2, "a", cpu="3", nodeSelector={"karpenter.sh/nodepool": "first"}),
            *pods(2, "b", cpu="3", nodeSelector={"karpenter.sh/nodepool": "second"}),
        ],
        "nodepools": [
            of_class("small", node_pool("first", requirements=[ON_DEMAND])),
            of_class("large", node_pool("second", requirements=[ON_DEMAND])),
        ],
    }

    made = plan(
        Snapshot.from_lists(lists),
        Catalogue.from_json(ANOTHER),
        classes={**in_two_classes(subnets[:2], subnets[1:]), **others},
    )

    assert (len(made.nodes), len(made.pending)) == (3, 1)


@pytest.mark.parametrize(
    ("free", "zones"), [((2, 0, 500), {0: 2, 2: 1}), ((1, 1, 0), {0: 1, 1: 1}), ((0, 0, 1), {2: 1})]
)
def test_a_static_pool_gets_no_more_nodes_than_there_are_addresses(
    free: Sequence[int], zones: Mapping[int, int]
) -> None:
    lists = {"nodepools": [node_pool("fixed", requirements=[ON_DEMAND], replicas=3)]}

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=in_small_subnets(*free))

    assert Counter(node.zone for node in made.nodes) == {ZONES[zone]: number for zone, number in zones.items()}
    lacking = 3 - sum(zones.values())
    assert [str(problem) for problem in made.problems if "cannot be launched" in str(problem)] == [
        f"NodePool/fixed: spec.replicas is 3: {lacking} of these nodes cannot be launched: the subnet "
        f"subnet-{ZONES[min(zones)]} has {free[min(zones)]} free addresses: use larger or more subnets; the next plan "
        "tries again"
    ] * bool(lacking)


def test_pods_use_the_addresses_that_static_pools_leave() -> None:
    lists: dict[str, list[Any]] = {
        "nodepools": [
            node_pool("fixed", requirements=[ON_DEMAND], replicas=2, taints=[{"key": "fixed", "effect": "NoSchedule"}]),
            node_pool(requirements=[ON_DEMAND]),
        ],
        "pods": pods(2, cpu="3"),
    }

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=in_small_subnets(1, 1, 1))

    assert Counter(node.pool for node in made.nodes) == {"NodePool/fixed": 2, "NodePool/default": 1}
    assert len(made.pending) == 1


SIZES = {"one": (1, 0.05), "three": (3, 0.18), "six": (6, 0.4), "twelve": (12, 0.9)}
"""Types by the number of pods of 1 CPU that they hold, with their price: the smallest is the cheapest for each pod."""
OF_SIZES = {name: instance_type(name, cpu + 1, 64, price) for name, (cpu, price) in SIZES.items()}


def cheapest_with(nodes: int, count: int) -> tuple[int, float]:
    """Return how many pods so many nodes hold at most, and the lowest price of nodes that hold them."""
    choices = [
        chosen for number in range(nodes + 1) for chosen in combinations_with_replacement(SIZES.values(), number)
    ]
    held = max(min(count, sum(cpu for cpu, _ in chosen)) for chosen in choices)
    return held, min(sum(price for _, price in chosen) for chosen in choices if sum(cpu for cpu, _ in chosen) >= held)


@pytest.mark.parametrize("free", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 4, 7, 12, 20, 37])
def test_a_plan_has_fewer_and_larger_nodes_where_addresses_are_short(free: int, count: int) -> None:
    of_cpus = pods(count, cpu="1", memory="64Mi")
    lists: dict[str, list[Any]] = {"pods": of_cpus, "nodepools": [node_pool(requirements=[ON_DEMAND])]}
    classes = in_small_subnets(free, 0, 0)

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(OF_SIZES), classes=classes)

    held, price = cheapest_with(free, count)
    assert check_plan(lists, OF_SIZES, made.to_json()) == []
    assert (len(made.nodes) <= free, len(made.pending)) == (True, count - held)
    assert made.price_per_hour <= 1.3 * price + 1e-9
    assert made.lower_bound_per_hour <= made.price_per_hour


@pytest.mark.parametrize("free", [(1, 1, 500), (2, 1, 500)])
def test_a_zone_that_would_block_a_spread_is_used_where_the_other_zones_have_few_addresses(
    free: tuple[int, int, int],
) -> None:
    """With nodes of `job` in the third zone, one `web` pod goes to each of the other two. Without them, no subnet has
    an address for `job`."""
    types = {
        "plain": instance_type("plain", 4, 16, 0.2, zones=ZONES[:2]),
        "arm": instance_type("arm", 4, 16, 0.2, arch="arm64"),
    }
    of_arch = [{"kubernetes.io/arch": name} for name in ("amd64", "arm64")]
    everywhere = spread(nodeAffinityPolicy="Ignore")
    lists: dict[str, list[Any]] = {
        "pods": [
            *pods(9, cpu="3", nodeSelector=of_arch[0], topologySpreadConstraints=[everywhere]),
            *pods(2, "job", cpu="3", nodeSelector=of_arch[1]),
        ],
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(types), classes=in_small_subnets(*free))

    assert check_plan(lists, types, made.to_json()) == []
    assert Counter(node.zone for node in made.nodes) == {ZONES[0]: 1, ZONES[1]: 1, ZONES[2]: 2}
    assert {one.pod.partition("/")[2].rpartition("-")[0] for one in made.pending} == {"web"}
