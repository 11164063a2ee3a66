"""Launches of one plan share the subnets of a zone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.launching import Launch, LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch
from joiner.pools import ResolvedNodeClass, Subnet
from tests.unit.launching.launch_scenario import POOL, launches, resolved, wanted

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"
M5 = LaunchOffering(0.096, "m5.large", A)
C5 = LaunchOffering(0.085, "c5.large", B)


def in_subnets(*subnets: Subnet) -> ResolvedNodeClass:
    return replace(resolved(), subnets=subnets)


def claims(count: int, there: ResolvedNodeClass, *offers: LaunchOffering, **changes: Any) -> list[ClaimToLaunch]:
    """Return so many equal claims. With a ``prefix``, their names begin with it."""
    prefix = changes.pop("prefix", "")
    return [wanted(f"{prefix}{number:03}", *(offers or (M5,)), resolved=there, **changes) for number in range(count)]


def launched(count: int, there: ResolvedNodeClass, *offers: LaunchOffering, **changes: Any) -> tuple[Launch, ...]:
    """Return the launches of so many equal claims."""
    return launches(*claims(count, there, *offers, **changes))


def zones_of(launch: Launch) -> set[str]:
    """Return the zones in which a launch may create nodes."""
    return {one["AvailabilityZone"] for each in launch.request["LaunchTemplateConfigs"] for one in each["Overrides"]}


def nodes_by_subnet(made: Sequence[Launch]) -> Counter[str]:
    """Return how many nodes may be launched in each subnet."""
    found: Counter[str] = Counter()
    for launch in made:
        subnets = {one["SubnetId"] for config in launch.request["LaunchTemplateConfigs"] for one in config["Overrides"]}
        found.update(dict.fromkeys(subnets, len(launch.claims)))
    return found


@pytest.mark.parametrize("free", [(30, 30), (60, 10), (200, 200), (40, 25, 25)])
def test_no_subnet_gets_more_nodes_than_it_has_addresses_if_the_zone_has_enough(free: tuple[int, ...]) -> None:
    there = in_subnets(*(Subnet(f"subnet-{number}", A, free_ips=most) for number, most in enumerate(free)))

    found = nodes_by_subnet(launched(60, there))

    assert sum(found.values()) == 60
    assert all(found[f"subnet-{number}"] <= most for number, most in enumerate(free)), found


def test_one_subnet_a_zone_is_requested_whatever_others_are_there() -> None:
    there = in_subnets(Subnet("a-1", A, 30), Subnet("a-2", A, 40), Subnet("b-1", B, 5))

    [launch] = launched(2, there, M5, C5)

    assert nodes_by_subnet([launch]) == {"a-2": 2, "b-1": 2}


def test_a_subnet_of_the_other_kind_of_address_is_used_last() -> None:
    """The plan knows the price of the kind that the subnet with the most free addresses has."""
    there = in_subnets(Subnet("private-1", A, 90), Subnet("private-2", A, 60), Subnet("public-1", A, 80, public=True))

    assert nodes_by_subnet(launched(150, there)) == {"private-1": 90, "private-2": 60}
    assert nodes_by_subnet(launched(160, there)) == {"private-1": 90, "private-2": 60, "public-1": 10}
    assert nodes_by_subnet(launched(100, there)) == {"private-1": 50, "private-2": 50}


def test_a_subnet_without_an_address_is_not_used_while_others_have_some() -> None:
    there = in_subnets(Subnet("full", A, 0), Subnet("unknown", A), Subnet("small", A, 1))

    assert nodes_by_subnet(launched(1, there)) == {"small": 1}
    assert nodes_by_subnet(launched(3, there))["full"] == 0


@pytest.mark.parametrize("free", [(30, 30), (25, 25, 10), (59, 1)])
def test_launches_of_several_groups_use_all_addresses_of_a_zone(free: tuple[int, ...]) -> None:
    """Three groups of 20 in a zone with 60 addresses: a group is split where a subnet has fewer addresses left."""
    there = in_subnets(*(Subnet(f"subnet-{number}", A, most) for number, most in enumerate(free)))
    types = ("m5.large", "c5.large", "m6g.large")
    groups = [claims(20, there, LaunchOffering(0.1, one, A), prefix=one.partition(".")[0]) for one in types]

    made = launches(*(one for group in groups for one in group))

    assert nodes_by_subnet(made) == {f"subnet-{number}": most for number, most in enumerate(free)}
    assert sorted(name for launch in made for name in launch.claims) == sorted(
        one.claim.name for group in groups for one in group
    )


def test_an_almost_full_alternative_zone_does_not_split_a_launch() -> None:
    there = in_subnets(Subnet("a-1", A, 200), Subnet("b-1", B, 1), Subnet("b-2", B, 1))

    made = launched(100, there, M5, C5)

    assert [len(launch.claims) for launch in made] == [50, 50]
    assert [zones_of(launch) for launch in made] == [{A}, {A}]
    assert all(set(launch.prices) == {"m5.large/us-east-1a"} for launch in made)
    assert all(len(launch.request["LaunchTemplateConfigs"]) == 1 for launch in made)


@pytest.mark.parametrize(
    ("label", "least", "zones"),
    [
        ("topology.kubernetes.io/zone", 2, {A, B}),
        ("topology.kubernetes.io/zone", 3, {A, B, C}),
        ("node.kubernetes.io/instance-type", 2, {A, B}),
        ("kubernetes.io/arch", 2, {A, C}),
        ("kubernetes.io/arch", 1, {A}),
    ],
)
def test_an_almost_full_zone_stays_an_alternative_where_min_values_needs_it(
    label: str, least: int, zones: set[str]
) -> None:
    there = in_subnets(Subnet("a-1", A, 200), Subnet("b-1", B, 1), Subnet("b-2", B, 1), Subnet("c-1", C, 9))
    pool = replace(POOL, min_values={label: least})

    made = launched(100, there, M5, C5, LaunchOffering(0.1, "m6g.large", C), pool=pool)

    assert [zones_of(launch) for launch in made] == [zones, zones]


def test_a_launch_goes_to_another_zone_if_its_first_one_has_no_address_left() -> None:
    there = in_subnets(Subnet("a-1", A, 20), Subnet("b-1", B, 100))

    made = launched(60, there, M5, C5)

    assert sorted((len(launch.claims), sorted(zones_of(launch))) for launch in made) == [(20, [A, B]), (40, [B])]


def test_public_subnets_are_used_only_in_zones_whose_private_ones_have_no_address() -> None:
    there = in_subnets(
        *(Subnet(f"private-{zone}", zone, 210) for zone in (A, B, C)),
        *(Subnet(f"public-{zone}", zone, 200, public=True) for zone in (A, B, C)),
    )
    offers = [LaunchOffering(0.096, "m5.large", zone) for zone in (A, B, C)]

    first = nodes_by_subnet(launched(210, there, *offers))
    more = nodes_by_subnet(launched(250, there, *offers))

    assert first == {f"private-{zone}": 210 for zone in (A, B, C)}
    assert more == {f"private-{zone}": 210 for zone in (A, B, C)} | {f"public-{zone}": 40 for zone in (A, B, C)}


def test_alternatives_of_several_launches_are_distributed_over_the_subnets_of_a_zone() -> None:
    there = in_subnets(Subnet("a-1", A, 200), Subnet("b-1", B, 60), Subnet("b-2", B, 60))

    assert nodes_by_subnet(launched(100, there, M5, C5)) == {"a-1": 100, "b-1": 50, "b-2": 50}


def test_a_class_with_few_subnets_gets_its_addresses_whatever_other_classes_share_them() -> None:
    """The name of the claims decides which launch is first."""
    subnets = {name: Subnet(name, A, 10) for name in ("both", "own")}
    either, one = in_subnets(*subnets.values()), replace(in_subnets(subnets["both"]), name="narrow")

    for prefixes in (("a-", "b-"), ("b-", "a-")):
        wide = claims(10, either, prefix=prefixes[0])
        narrow = claims(10, one, LaunchOffering(0.085, "c5.large", A), prefix=prefixes[1])
        assert nodes_by_subnet(launches(*wide, *narrow)) == {"both": 10, "own": 10}


Places = Mapping[frozenset[str], int]
"""How many nodes of a class with these subnets are launched."""


def most_with_addresses(free: Mapping[str, int], nodes: Places) -> int:
    """Return how many nodes can have an address at most, by trying every set of classes (Hall, Ford and Fulkerson)."""
    return min(
        sum(number for place, number in nodes.items() if place not in chosen)
        + sum(free[subnet] for subnet in frozenset().union(*chosen))
        for size in range(len(nodes) + 1)
        for chosen in combinations(nodes, size)
    )


@given(
    free=st.fixed_dictionaries({name: st.integers(0, 6) for name in "stuv"}),
    nodes=st.dictionaries(st.frozensets(st.sampled_from("stuv"), min_size=1), st.integers(1, 8), max_size=4),
)
def test_launches_use_as_many_addresses_as_any_division_could(free: Mapping[str, int], nodes: Places) -> None:
    subnets = {name: Subnet(name, A, most) for name, most in free.items()}
    types = ("m5.large", "c5.large", "m6g.large", "g5.xlarge")
    wanted = [
        one
        for number, (place, count) in enumerate(nodes.items())
        for one in claims(
            count,
            replace(in_subnets(*(subnets[name] for name in sorted(place))), name=f"class-{number}"),
            LaunchOffering(0.1, types[number], A),
            prefix=f"{number}-",
        )
        if any(free[name] for name in place)
    ]
    made = nodes_by_subnet(launches(*wanted)) if wanted else {}

    assert sum(min(made.get(name, 0), most) for name, most in free.items()) == most_with_addresses(free, nodes)


@pytest.mark.parametrize("there", [(30, 30), (25, 20, 15), (59, 1), (7,) * 9])
def test_a_zone_stays_an_alternative_if_its_subnets_suffice_together(there: Sequence[int]) -> None:
    """A fleet takes one subnet of a zone, so the launch is split."""
    of_b = [Subnet(f"b-{number}", B, free) for number, free in enumerate(there)]

    made = launched(60, in_subnets(Subnet("a-1", A, 200), *of_b), M5, C5, capacity_type="spot")

    assert sum(len(launch.claims) for launch in made) == 60
    assert [zones_of(launch) for launch in made] == [{A, B}] * len(made)
    assert all(nodes_by_subnet(made)[subnet.id] <= (subnet.free_ips or 0) for subnet in of_b)
    assert len(made) <= len(there) + 1


def test_alternatives_leave_the_addresses_of_nodes_that_are_planned_there() -> None:
    """Twenty nodes are planned in each zone; zone b has no address for those of zone a."""
    there = in_subnets(Subnet("a-1", A, 20), Subnet("b-1", B, 10), Subnet("b-2", B, 10))

    first = claims(20, there, M5, replace(C5, price_per_hour=0.1), prefix="a-")
    second = claims(20, there, C5, prefix="b-")
    made = launches(*first, *second)

    assert [(len(launch.claims), zones_of(launch)) for launch in made] == [(20, {A}), (10, {B}), (10, {B})]
    assert nodes_by_subnet(made) == {"a-1": 20, "b-1": 10, "b-2": 10}
