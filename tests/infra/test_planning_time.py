"""The plan of the deployed function is made before the function's timeout, whatever the shape of the cluster."""

from functions.plan_capacity.handler import EFFORT
from infra.function_configuration import CONFIGURATIONS
from joiner.planning.effort import GRACE_SECONDS, Effort, Meter


def test_the_search_ends_long_before_the_function_does() -> None:
    limit = CONFIGURATIONS["plan_capacity"].timeout_seconds

    assert EFFORT.seconds is not None
    assert EFFORT.seconds + GRACE_SECONDS < limit / 2  # the last method, the proof and the documents take the rest
    assert EFFORT.clock is not None
    assert EFFORT.clock() < EFFORT.clock()


def test_the_clock_does_not_give_the_search_more_steps_than_a_search_without_it() -> None:
    assert Meter(EFFORT).allowance == Meter(Effort()).allowance
