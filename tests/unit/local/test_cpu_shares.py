"""The CPU time that a sandbox may use, in simulated time."""

import pytest

from joiner_local.aws.aws_lambda.cpu_shares import PERIOD, CpuBudget

MILLISECOND = 0.001


def use_of_a_busy_process(cores: float, *, looks: int, milliseconds: int) -> float:
    """Return the CPU seconds of a process that computes whenever it is not paused; a look follows so many milliseconds
    after another."""
    budget, used, paused = CpuBudget(cores, now=0.0, used=0.0), 0.0, False
    for number in range(1, milliseconds + 1):
        used += 0.0 if paused else MILLISECOND
        if number % looks == 0:
            paused = budget.is_ahead(now=number * MILLISECOND, used=used)
    return used


@pytest.mark.parametrize("cores", [0.07, 0.25, 0.58, 1.0])
@pytest.mark.parametrize("looks", [1, 2, 5])
def test_a_busy_process_gets_its_share(cores: float, looks: int) -> None:
    used = use_of_a_busy_process(cores, looks=looks, milliseconds=10_000)

    assert used == pytest.approx(10 * cores, abs=(looks + 1) * MILLISECOND + PERIOD)


def test_what_a_process_does_not_use_is_lost_after_a_period() -> None:
    budget = CpuBudget(0.5, now=0.0, used=0.0)

    assert not budget.is_ahead(now=60.0, used=0.0)
    assert budget.is_ahead(now=60.0, used=0.5 * PERIOD + MILLISECOND)


@pytest.mark.parametrize("cores", [0.07, 0.25, 0.58, 1.0])
def test_a_busy_process_gets_no_more_than_its_share_if_a_look_is_late(cores: float) -> None:
    assert use_of_a_busy_process(cores, looks=50, milliseconds=10_000) <= 10 * cores + 51 * MILLISECOND
