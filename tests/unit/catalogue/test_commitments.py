"""Commitments: what reserved instances and savings plans apply to, and how machines use them up."""

from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.catalogue.commitments import Commitment, Machine, apply_commitments
from joiner.catalogue.reserved_instances_and_savings_plans import (
    OTHER_INSTANCES,
    AccountCommitments,
    ReservedInstances,
    SavingsPlan,
    combine_commitments,
    commitments_of_settings,
    list_commitments,
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


def test_a_savings_plan_charges_the_on_demand_price_less_its_discount() -> None:
    every, family = SavingsPlan("1", 2.0, 0.25), SavingsPlan("2", 1.0, 0.4, "m5")
    small = Catalogue.of((CATALOGUE.types["m5.large"], CATALOGUE.types["c5.large"]))

    assert list_commitments((), (every, family), small) == (
        Commitment("savings-plan/2", 1_000_000, {"m5.large": 60_000}),
        Commitment("savings-plan/1", 2_000_000, {"m5.large": 75_000, "c5.large": 60_000}),
    )


def test_the_settings_declare_commitments_without_the_account() -> None:
    declared = {
        "reservedInstances": [{"instanceType": "m5.large", "count": 2, "zone": None}],
        "savingsPlans": [{"pricePerHour": 1.5, "discountPercent": 25, "family": None}],
    }

    assert commitments_of_settings(declared) == (
        (ReservedInstances("m5.large", 2),),
        (SavingsPlan("settings-1", 1.5, 0.25),),
    )


def test_a_commitment_that_is_written_and_read_is_the_same() -> None:
    both = (Commitment("a", 3, {"m5.large": 1}, "z-1a"), Commitment("b", 5, {"m5.large": 2}))

    assert Catalogue.from_json(replace(CATALOGUE, commitments=both).to_json()).commitments == both
    assert "commitments" not in CATALOGUE.to_json()


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


READ: Final = {OTHER_INSTANCES: 1}


def test_a_savings_plan_with_rates_charges_these_and_applies_to_no_other_type() -> None:
    exact = SavingsPlan("1", 1.0, rates={"m5.large": 0.061, "unknown.large": 0.01})

    assert list_commitments((), (exact,), CATALOGUE) == (Commitment("savings-plan/1", 1_000_000, {"m5.large": 61_000}),)


def test_declared_commitments_and_those_of_the_account_add_up() -> None:
    declared = ((ReservedInstances("m5.large", 1),), (SavingsPlan("settings-1", 1.0, 0.5),))
    account = AccountCommitments(
        (ReservedInstances("m5.xlarge", 1), ReservedInstances("c5.large", 1, "z-1a")),
        (SavingsPlan("a", 2.0, family="m5", rates={"m5.large": 0.05}),),
        read_at=READ,
    )

    found = combine_commitments(declared, account, CATALOGUE, 0)

    assert [(one.id, one.amount) for one in found] == [
        ("reserved-instances/c5.large/z-1a", 1),
        ("reserved-instances/m5", 16 + 32),
        ("savings-plan/a", 2_000_000),
        ("savings-plan/settings-1", 1_000_000),
    ]


def test_instances_elsewhere_use_the_account_s_commitments_and_not_the_declared_ones() -> None:
    declared = ((ReservedInstances("m5.large", 1),), ())
    elsewhere = tuple(Machine(f"i-{number}", "m5.xlarge", "z-1a") for number in range(9))
    account = AccountCommitments((ReservedInstances("m5.xlarge", 2),), (), elsewhere, READ)

    found = combine_commitments(declared, account, CATALOGUE, 0)

    assert [(one.id, one.amount) for one in found] == [("reserved-instances/m5", 16)]


def test_commitments_whose_term_has_ended_are_left_out() -> None:
    account = AccountCommitments(
        (ReservedInstances("m5.large", 1, until=100), ReservedInstances("c5.large", 1, until=101)),
        (SavingsPlan("a", 1.0, rates={"m5.large": 0.05}, until=100),),
        read_at=READ,
    )

    assert [one.id for one in combine_commitments(((), ()), account, CATALOGUE, 100)] == ["reserved-instances/c5"]


def test_commitments_of_the_account_are_not_used_while_other_instances_are_unknown() -> None:
    account = AccountCommitments((ReservedInstances("m5.large", 1),))

    assert combine_commitments(((), ()), account, CATALOGUE, 0) == ()
