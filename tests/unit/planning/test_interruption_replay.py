"""The benchmark of interruptions: the same history for both ways of planning, and what each of them cost."""

import pytest

from bench.cases import SHIPPED, read_cases, read_catalogue
from bench.interruption_replay import CALM, HOURS, SEED, SHORT, History, replay
from bench.spot_alternatives import with_spot


def test_a_history_follows_from_its_seed() -> None:
    catalogue = with_spot(read_catalogue(SHIPPED))
    one, again, other = (History.drawn(catalogue, seed) for seed in (SEED, SEED, SEED + 1))

    assert one == again
    assert one.chances != other.chances
    assert all(CALM[0] <= chance <= CALM[1] or SHORT[0] <= chance <= SHORT[1] for chance in one.chances.values())
    place = max(one.chances, key=lambda each: one.chances[each])
    assert one.warnings(place, 3, 1) == again.warnings(place, 3, 1) <= one.warnings(place, 5, 1) <= 5 * HOURS


def test_plans_that_weigh_interruptions_cost_less_with_the_work_that_they_save() -> None:
    (case,) = [each for each in read_cases(SHIPPED) if each.name == "web-30-s1"]
    catalogue = with_spot(read_catalogue(SHIPPED))

    cheapest, weighed = replay(case, catalogue, History.drawn(catalogue, SEED), days=5, lost_hours=2.0)

    assert cheapest.total == pytest.approx(cheapest.billed + cheapest.lost)
    assert cheapest.billed <= weighed.billed  # more is billed
    assert weighed.interrupted < cheapest.interrupted
    assert weighed.total < cheapest.total
