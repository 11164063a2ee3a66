"""Which retirements wait after an execution has ended, and until when."""

from datetime import timedelta

import pytest

from joiner.lifecycle.retirement import as_detaching, as_draining, as_terminating
from joiner.lifecycle.retirement_back_off import NEAR_DEADLINE, drained_by, is_blocked, may_back_off
from tests.unit.lifecycle.joining_nodes import NOON, claim

GOING = claim(deletion=NOON)


def test_a_claim_whose_conditions_name_what_keeps_its_pods_or_volumes_is_blocked() -> None:
    held = as_draining(GOING, ["pod default/web is held by its disruption budget"], at=NOON)

    assert is_blocked(held)
    assert is_blocked(as_detaching(GOING, ["pv-1"], at=NOON))
    assert not is_blocked(GOING)
    assert not is_blocked(as_draining(held, [], at=NOON))
    assert not is_blocked(as_terminating(held, in_time=True, at=NOON))
    assert not is_blocked(as_draining(claim(), ["nobody deleted it"], at=NOON))


@pytest.mark.parametrize(
    ("back_off_until", "deadlines", "rests"),
    [
        (101, (0, 0), True),
        (100, (0, 0), False),
        (101, (0, 101 + NEAR_DEADLINE), True),
        (101, (0, 100 + NEAR_DEADLINE), False),
        (101, (100 + NEAR_DEADLINE, 0), False),
    ],
)
def test_it_rests_until_its_time_and_not_when_a_deadline_is_near(
    back_off_until: int, deadlines: tuple[int, int], rests: bool
) -> None:
    assert may_back_off(back_off_until, deadlines, now=100) == rests


def test_a_claims_own_deadline_counts_from_its_deletion() -> None:
    assert drained_by(GOING) == 0
    assert drained_by(claim(deletion=NOON, termination_grace_period=60)) == int(
        (NOON + timedelta(seconds=60)).timestamp()
    )
