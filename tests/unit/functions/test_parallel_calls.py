"""Many similar calls: an error for one object keeps no other from its call, whatever it is."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.kube_errors import Forbidden, KubeError
from joiner.adapters.parallel_calls import UNBOUNDED, call_all, call_each, call_each_in_time

THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, "UpdateItem")
NO_ANSWER = ReadTimeoutError(endpoint_url="https://dynamodb")
REFUSED = Forbidden("denied by a policy", status=403)


class Calls:
    """Calls of numbers, of which some raise; `tried` are those that were begun."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        self.errors = errors
        self.tried: list[int] = []

    def call(self, number: int) -> int:
        self.tried.append(number)
        if number in self.errors:
            raise self.errors[number]
        return number


@pytest.mark.parametrize("count", [1, 40])
def test_all_are_tried_before_an_error_that_no_caller_expects_is_raised(count: int) -> None:
    calls = Calls({0: ValueError("a defect")})

    with pytest.raises(ValueError, match="a defect"):
        call_each(range(count), calls.call, CALL_FAILURES)
    with pytest.raises(ValueError, match="a defect"):
        call_each_in_time(range(count), calls.call, KubeError, UNBOUNDED)

    assert sorted(calls.tried) == sorted([*range(count), *range(count)])


def test_failed_calls_of_every_api_are_results_of_their_items() -> None:
    errors = {0: THROTTLED, 7: NO_ANSWER, 30: REFUSED}

    answers = call_each(range(40), Calls(errors).call, CALL_FAILURES)

    assert answers == [(number, errors.get(number, number)) for number in range(40)]


def test_the_first_failure_is_raised_after_all_were_tried() -> None:
    calls = Calls({3: NO_ANSWER, 9: REFUSED})

    with pytest.raises(ReadTimeoutError):
        call_all(range(40), calls.call, CALL_FAILURES)

    assert sorted(calls.tried) == list(range(40))
