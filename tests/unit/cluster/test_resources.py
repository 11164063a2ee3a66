"""Quantities: parsed exactly, added exactly, and written in the usual notation."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import InvalidField, Resources, sum_resources
from joiner.cluster.quantities import SUFFIXES, parse_amount

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), st.integers(0, 2**40)).map(
    Resources
)


@pytest.mark.parametrize(
    ("quantity", "millicores"),
    [("1", 1000), (2, 2000), (0.5, 500), ("100m", 100), ("1500u", 2), ("1e-1", 100), ("+1.5", 1500), (".5", 500)],
)
def test_cpu_is_counted_in_millicores_rounded_up(quantity: str, millicores: int) -> None:
    assert Resources.from_kube({"cpu": quantity})["cpu"] == millicores


@pytest.mark.parametrize("quantity", ["", "1 Gi", "Gi", "1GiB", "1e", "--1", "0x10", "1_000", None, True, [], {}])
def test_an_invalid_quantity_is_refused_with_its_resource(quantity: object) -> None:
    with pytest.raises(InvalidField) as refused:
        Resources.from_kube({"memory": quantity})

    assert refused.value.field == "memory"


@given(st.integers(0, 10**6), st.sampled_from(sorted(SUFFIXES)))
def test_a_quantity_is_never_rounded_down(number: int, suffix: str) -> None:
    exact = number * SUFFIXES[suffix]
    read = parse_amount(f"{number}{suffix}")

    assert read >= min(exact, Fraction(2**63 - 1)) and read - exact < 1


@given(amounts)
def test_written_resources_are_read_back_unchanged(some: Resources) -> None:
    assert Resources.from_kube(some.to_kube()) == some


@given(amounts, amounts)
def test_subtraction_is_the_inverse_of_addition(some: Resources, more: Resources) -> None:
    assert (some + more - more).without_zeros() == some.without_zeros()
    assert sum_resources([some, more]).without_zeros() == (some + more).without_zeros()


@given(amounts, amounts)
def test_resources_fit_exactly_if_nothing_is_lacking(asked: Resources, free: Resources) -> None:
    assert asked.fits(free) == (not asked.lacking(free))
    assert asked.fits(free + asked)


def test_a_limit_of_zero_is_kept_while_a_request_of_zero_fits_anywhere() -> None:
    nothing = Resources.from_kube({"nvidia.com/gpu": 0})

    assert list(nothing) == ["nvidia.com/gpu"]
    assert nothing.fits(Resources())
