"""Commitments: what reserved instances and savings plans apply to, and how machines use them up."""

from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.catalogue.commitments import Commitment, Machine, apply_commitments, reduce_commitments
from joiner.catalogue.owned_commitments import (
    ReservedInstances,
    SavingsPlan,
    applies_to_nodes,
    commitments_of_settings,
    list_commitments,
    read_reserved_instances,
    read_savings_plan,
)
from joiner.cluster import Resources


def known(name: str, cpu: int, price: float) -> InstanceType:
    return InstanceType(name, capacity=Resources.of(cpu=cpu), offerings=(Offering("z-1a", "on-demand", price),))


CATALOGUE: Final = Catalogue.of(
    (
        known("m5.large", 2, 0.1),
        known("m5.xlarge", 4, 0.2),
        known("m5.metal", 96, 4.6),
        known("c5.large", 2, 0.08),
        known("g5.xlarge", 4, 1.0),
        known("g5.2xlarge", 8, 1.2),
    )
)
LINUX: Final = {"State": "active", "InstanceTenancy": "default", "ProductDescription": "Linux/UNIX"}


def test_regional_reserved_instances_of_a_family_are_one_commitment_of_all_sizes() -> None:
    owned = (ReservedInstances("m5.large", 3), ReservedInstances("m5.xlarge", 1))

    assert list_commitments(owned, (), CATALOGUE) == (
        Commitment("reserved-instances/m5", 3 * 16 + 32, {"m5.large": 16, "m5.xlarge": 32, "m5.metal": 768}),
    )


def test_reserved_instances_of_a_zone_or_of_an_inflexible_family_cover_their_own_size() -> None:
    owned = (ReservedInstances("m5.large", 2, "z-1a"), ReservedInstances("g5.xlarge", 4))

    assert list_commitments(owned, (), CATALOGUE) == (
        Commitment("reserved-instances/m5.large/z-1a", 2, {"m5.large": 1}, "z-1a"),
        Commitment("reserved-instances/g5.xlarge", 4, {"g5.xlarge": 1}),
    )


def test_a_savings_plan_has_rates_or_a_discount() -> None:
    rates, family = SavingsPlan("1", 2.0, rates={"c5.large": 0.06}), SavingsPlan("2", 1.0, "m5", discount=0.4)

    assert list_commitments((), (rates, family), CATALOGUE) == (
        Commitment("savings-plan/2", 1_000_000, {"m5.large": 60_000, "m5.xlarge": 120_000, "m5.metal": 2_760_000}),
        Commitment("savings-plan/1", 2_000_000, {"c5.large": 60_000}),
    )


def test_reserved_instances_that_no_node_can_use_are_left_out() -> None:
    regional = {**LINUX, "InstanceType": "m5.large", "InstanceCount": 3, "Scope": "Region"}
    zonal = {**regional, "Scope": "Availability Zone", "AvailabilityZone": "z-1a", "InstanceCount": 1}
    others = [{"State": "retired"}, {"InstanceTenancy": "dedicated"}, {"ProductDescription": "Windows"}]

    assert read_reserved_instances([regional, zonal, *({**regional, **each} for each in others)]) == (
        ReservedInstances("m5.large", 3),
        ReservedInstances("m5.large", 1, "z-1a"),
    )


def test_savings_plans_of_other_regions_and_services_are_left_out() -> None:
    active = {"state": "active", "region": "z-1"}

    assert applies_to_nodes({**active, "savingsPlanType": "Compute"}, "z-1")
    assert applies_to_nodes({**active, "savingsPlanType": "EC2Instance"}, "z-1")
    assert not applies_to_nodes({**active, "savingsPlanType": "EC2Instance"}, "z-2")
    assert not applies_to_nodes({**active, "savingsPlanType": "SageMaker"}, "z-1")
    assert not applies_to_nodes({**active, "savingsPlanType": "Compute", "state": "retired"}, "z-1")


def test_the_rates_of_a_plan_are_those_of_instances_that_run() -> None:
    def rate(usage: str, value: str) -> dict[str, Any]:
        properties = [{"name": "instanceType", "value": "m5.large"}]
        return {"usageType": usage, "operation": "RunInstances", "rate": value, "properties": properties}

    described = {"savingsPlanId": "1", "savingsPlanType": "EC2Instance", "ec2InstanceFamily": "m5", "commitment": "1.5"}

    found = read_savings_plan(described, [rate("EU-UnusedBox:m5.large", "0.09"), rate("EU-BoxUsage:m5.large", "0.06")])

    assert found == SavingsPlan("1", 1.5, "m5", {"m5.large": 0.06})


def test_the_settings_declare_commitments_without_the_account() -> None:
    declared = {
        "reservedInstances": [{"instanceType": "m5.large", "count": 2, "zone": None}],
        "savingsPlans": [{"pricePerHour": 1.5, "discountPercent": 25, "family": None}],
    }

    assert commitments_of_settings(declared) == (
        (ReservedInstances("m5.large", 2),),
        (SavingsPlan("settings-1", 1.5, discount=0.25),),
    )


def test_a_commitment_that_is_written_and_read_is_the_same() -> None:
    both = (Commitment("a", 3, {"m5.large": 1}, "z-1a"), Commitment("b", 5, {"m5.large": 2}))

    assert Catalogue.from_json(replace(CATALOGUE, commitments=both).to_json()).commitments == both
    assert "commitments" not in CATALOGUE.to_json()


def test_instances_elsewhere_in_the_account_leave_the_rest() -> None:
    both = (Commitment("a", 3, {"m5.large": 1}), Commitment("b", 5, {"m5.large": 2}))

    assert reduce_commitments(both, {"a": 3, "b": 1}) == (Commitment("b", 4, {"m5.large": 2}),)


TYPES: Final = ("m5.large", "m5.xlarge", "c5.large")
commitments = st.builds(
    Commitment,
    st.just(""),
    st.integers(0, 100),
    st.dictionaries(st.sampled_from(TYPES), st.integers(1, 40), min_size=1),
    st.sampled_from(("", "z-1a", "z-1b")),
)
machines = st.builds(Machine, st.just(""), st.sampled_from(TYPES), st.sampled_from(("z-1a", "z-1b")))


@given(st.lists(commitments, max_size=4), st.lists(machines, max_size=8))
def test_nothing_is_covered_twice_and_no_commitment_exceeds_its_amount(
    owned: list[Commitment], running: list[Machine]
) -> None:
    owned = [replace(one, id=f"c-{number}") for number, one in enumerate(owned)]
    running = [replace(one, id=f"i-{number}") for number, one in enumerate(running)]

    found = apply_commitments(owned, running)

    assert all(0 < share <= 1 for share in found.shares.values())
    assert all(0 <= found.used[one.id] <= one.amount for one in owned)
    for one in owned:
        able = [each for each in running if one.use_of(each.instance_type, each.zone)]
        if found.used[one.id] < one.amount - len(able):
            assert all(found.shares.get(each.id, 0.0) > 1 - 1 / one.uses[each.instance_type] for each in able)
