"""How often spot instances are interrupted, from warnings and node-hours that fade, and what plans add for it."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import InstanceType, Offering
from joiner.catalogue.interruption_history import (
    DAY,
    HALF_LIFE,
    Interruptions,
    SpotHours,
    interruption_rates,
    price_interruptions,
)

PLACE: Final = ("m5.large", "z-1a")
NOW: Final = 100 * DAY


def test_hours_are_added_once_an_hour_and_fade_by_half_in_a_week() -> None:
    first = SpotHours().note({PLACE: 8}, NOW)
    assert first == SpotHours({}, NOW)  # how long the nodes were there before is not known
    assert first.note({PLACE: 8}, NOW + 3599) is first

    after = first.note({PLACE: 8}, NOW + 3600)
    assert after.hours == {"m5.large": {"z-1a": 8.0}}
    assert after.of(PLACE, NOW + 3600 + HALF_LIFE) == 4.0
    assert after.note({}, NOW + 3600 + HALF_LIFE).hours == {"m5.large": {"z-1a": 4.0}}


def test_hours_without_sweeps_count_two_at_most() -> None:
    assert SpotHours({}, NOW).note({PLACE: 3}, NOW + 10 * 3600).hours == {"m5.large": {"z-1a": 6.0}}


def test_a_cluster_without_spot_nodes_notes_nothing() -> None:
    nothing = SpotHours()

    assert nothing.note({}, NOW) is nothing


def test_hours_that_have_faded_are_forgotten() -> None:
    assert SpotHours({"m5.large": {"z-1a": 1.0}}, NOW).note({}, NOW + 8 * HALF_LIFE).hours == {}


def test_warnings_fade_and_are_weighed_with_the_hours() -> None:
    hours = SpotHours({"m5.large": {"z-1a": 300.0}}, NOW)
    found = [Interruptions(*PLACE, NOW, 6), Interruptions(*PLACE, NOW - HALF_LIFE, 4)]

    assert interruption_rates(found, hours, NOW) == {PLACE: pytest.approx(8 / 400)}
    assert interruption_rates([Interruptions("c5.large", "z-1a", NOW, 1)], hours, NOW) == {("c5.large", "z-1a"): 0.01}


def test_only_spot_offerings_with_warnings_get_a_price_from_the_on_demand_price() -> None:
    offerings = (
        Offering("z-1a", "on-demand", 0.10),
        Offering("z-1a", "spot", 0.03),
        Offering("z-1b", "on-demand", 0.10),
        Offering("z-1b", "spot", 0.03),
    )
    known, other = InstanceType("m5.large", offerings=offerings), InstanceType("c5.large", offerings=offerings)

    priced, same = price_interruptions((known, other), {PLACE: 0.02}, 0.5)

    assert {(one.zone, one.capacity_type): one.interruptions for one in priced.offerings} == {
        ("z-1a", "on-demand"): 0.0,
        ("z-1a", "spot"): 0.001,
        ("z-1b", "on-demand"): 0.0,
        ("z-1b", "spot"): 0.0,
    }
    assert same is other
    assert InstanceType.from_json("m5.large", priced.to_json()) == priced
    assert "interruptionsPerHour" not in str(known.to_json())


def test_no_hours_lost_means_no_price() -> None:
    known = InstanceType("m5.large", offerings=(Offering("z-1a", "spot", 0.03),))

    assert price_interruptions((known,), {PLACE: 1.0}, 0.0) == [known]


@given(st.integers(0, 50), st.integers(1, 50), st.floats(0, 1e6), st.integers(0, 60))
def test_more_warnings_raise_the_rate_and_more_hours_or_age_lower_it(
    count: int, more: int, hours: float, days: int
) -> None:
    def rate(number: int, there: float, age: int) -> float:
        spent = SpotHours({"m5.large": {"z-1a": there}}, NOW)
        return interruption_rates([Interruptions(*PLACE, NOW - age * DAY, number)], spent, NOW)[PLACE]

    assert rate(count, hours, days) <= rate(count + more, hours, days)
    assert rate(count, hours + 1, days) <= rate(count, hours, days)
    assert rate(count, hours, days + 1) <= rate(count, hours, days)
