"""Disruption budgets: how many nodes of a pool may be disrupted at one time."""

from datetime import UTC, datetime, timedelta

import pytest

from joiner.pools import DisruptionBudget
from joiner.pools.disruption_budgets import count_allowed_disruptions, is_active, parse_schedule

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday
HOURS = 3600


@pytest.mark.parametrize(
    ("said", "nodes", "may_go"),
    [("10%", 0, 0), ("10%", 1, 1), ("10%", 11, 2), ("100%", 7, 7), ("0%", 9, 0), ("3", 2, 3)],
)
def test_a_percentage_is_rounded_up_and_a_number_is_taken_as_it_is(said: str, nodes: int, may_go: int) -> None:
    assert count_allowed_disruptions([DisruptionBudget(said)], "Empty", nodes=nodes, now=NOON) == may_go


def test_the_strictest_budget_counts() -> None:
    assert (
        count_allowed_disruptions(
            [DisruptionBudget("100%"), DisruptionBudget("2"), DisruptionBudget("50%")], "Empty", nodes=10, now=NOON
        )
        == 2
    )


def test_zero_lets_nothing_go() -> None:
    assert count_allowed_disruptions([DisruptionBudget("0")], "Empty", nodes=100, now=NOON) == 0


def test_a_budget_for_other_reasons_says_nothing_of_this_one() -> None:
    budgets = [DisruptionBudget("0", reasons=("Drifted", "Underutilized")), DisruptionBudget("5", reasons=("Empty",))]

    assert count_allowed_disruptions(budgets, "Empty", nodes=100, now=NOON) == 5
    assert count_allowed_disruptions(budgets, "Drifted", nodes=100, now=NOON) == 0


def test_without_a_budget_that_counts_all_may_go() -> None:
    assert (
        count_allowed_disruptions(
            [DisruptionBudget("0", schedule="0 9 * * mon-fri", duration=8 * HOURS)], "Empty", nodes=7, now=NOON
        )
        == 7
    )


@pytest.mark.parametrize(
    ("times", "hours", "active"),
    [
        ("0 12 * * *", 1, True),
        ("0 11 * * *", 1, False),  # it began an hour ago, and has ended
        ("1 11 * * *", 1, True),
        ("0 9 * * sat", 8, True),
        ("0 9 * * 6", 8, True),
        ("0 9 * * mon-fri", 8, False),
        ("0 0 1 * *", 24 * 21, True),
        ("0 0 1 * *", 24 * 20, False),
        ("0 0 31 feb *", 24 * 300, False),
        ("@daily", 13, True),
        ("@yearly", 24 * 30, False),
        ("*/7 * * * *", 1, True),
        ("0 12 1 * sat", 1, True),  # where both days are given, either of them matches
        ("0 12 21 * sun", 1, True),
        ("0 12 20 * sun", 1, False),
    ],
)
def test_a_schedule_says_when_a_budget_begins_and_its_duration_for_how_long(
    times: str, hours: int, active: bool
) -> None:
    assert is_active(DisruptionBudget("0", schedule=times, duration=hours * HOURS), NOON) is active


def test_a_budget_is_active_from_the_minute_it_begins_to_the_minute_it_ends() -> None:
    budget = DisruptionBudget("0", schedule="30 11 * * *", duration=HOURS)
    minutes = [minute for minute in range(-120, 121) if is_active(budget, NOON + timedelta(minutes=minute))]

    assert minutes == list(range(-30, 30))


def test_times_are_utc_whatever_the_clock_shows() -> None:
    elsewhere = NOON.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+09:00").tzinfo)

    assert is_active(DisruptionBudget("0", schedule="0 12 * * *", duration=60), elsewhere)


@pytest.mark.parametrize(
    "times",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "5-1 * * * *",
        "*/0 * * * *",
        "mon * * * *",
        "* * * * *  *",
    ],
)
def test_a_schedule_that_cannot_be_read_lets_nothing_go(times: str) -> None:
    with pytest.raises(ValueError, match=r"field|within|literal"):
        parse_schedule(times)
    assert (
        count_allowed_disruptions(
            [DisruptionBudget("100%", schedule=times, duration=HOURS)], "Empty", nodes=9, now=NOON
        )
        == 0
    )
