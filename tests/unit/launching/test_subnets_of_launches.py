"""Launches of one plan share the subnets of a zone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from joiner.launching import Launch, LaunchOffering
from joiner.pools import ResolvedNodeClass, Subnet
from tests.unit.launching.launch_scenario import launches, resolved, wanted

A, B = "us-east-1a", "us-east-1b"
M5 = LaunchOffering(0.096, "m5.large", A)
C5 = LaunchOffering(0.085, "c5.large", B)


def in_subnets(*subnets: Subnet) -> ResolvedNodeClass:
    return replace(resolved(), subnets=subnets)


def launched(count: int, there: ResolvedNodeClass, *offers: LaunchOffering) -> tuple[Launch, ...]:
    """Return the launches of so many equal claims."""
    return launches(*(wanted(f"{number:03}", *(offers or (M5,)), resolved=there) for number in range(count)))


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

    found = nodes_by_subnet(launched(150, there))

    assert found == {"private-1": 50, "private-2": 50, "public-1": 50}
    assert nodes_by_subnet(launched(100, there)) == {"private-1": 50, "private-2": 50}


def test_a_subnet_without_an_address_is_not_used_while_others_have_some() -> None:
    there = in_subnets(Subnet("full", A, 0), Subnet("unknown", A), Subnet("small", A, 1))

    assert nodes_by_subnet(launched(1, there)) == {"small": 1}
    assert nodes_by_subnet(launched(3, there))["full"] == 0
