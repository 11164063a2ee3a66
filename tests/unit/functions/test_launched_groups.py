"""Several groups of one invocation of launch_instances: sums of their outcomes, and failures of some or all of them."""

import threading
from collections import Counter
from typing import Any

import pytest

from functions.launch_instances.handler import CODES_SHOWN, FLEETS_AT_ONCE, launch_groups
from infra.launch_limits import GROUPS_OF_ONE_INVOCATION
from joiner.adapters.ledger_items import LeaseLost

LAUNCHED: dict[str, Any] = {"launch": "l-1", "launched": 2, "short": 1, "failed": 0, "errors": ["Short"]}


class Groups:
    """Launches whose outcomes are scripted; the last outcome of a group is that of each further try."""

    def __init__(self, *outcomes: tuple[dict[str, Any] | Exception, ...]) -> None:
        self._outcomes = outcomes
        self.tries: Counter[int] = Counter()

    def launch(self, index: int) -> dict[str, Any]:
        outcomes = self._outcomes[index]
        outcome = outcomes[min(self.tries[index], len(outcomes) - 1)]
        self.tries[index] += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def answer(self) -> dict[str, Any]:
        return launch_groups(self.launch, range(len(self._outcomes)))


def test_the_outcomes_of_all_groups_are_summed_up() -> None:
    groups = Groups((LAUNCHED,), ({**LAUNCHED, "failed": 3, "errors": ["Refused", "Short"]},))

    assert groups.answer() == {
        "launched": 4,
        "short": 2,
        "failed": 3,
        "notLaunched": 0,
        "errors": ["Short", "Refused"],
    }


def test_the_codes_of_many_groups_are_few() -> None:
    groups = Groups(*(({**LAUNCHED, "errors": [f"Code{number}"]},) for number in range(8)))

    assert len(groups.answer()["errors"]) == CODES_SHOWN


def test_the_groups_are_launched_at_the_same_time() -> None:
    together = threading.Barrier(GROUPS_OF_ONE_INVOCATION, timeout=20)

    def launch(_index: int) -> dict[str, Any]:
        together.wait()
        return LAUNCHED

    launched = launch_groups(launch, range(GROUPS_OF_ONE_INVOCATION))["launched"]

    assert launched == GROUPS_OF_ONE_INVOCATION * LAUNCHED["launched"]


def test_an_invocation_has_a_thread_for_each_of_its_groups() -> None:
    assert FLEETS_AT_ONCE == GROUPS_OF_ONE_INVOCATION


def test_a_group_that_fails_is_tried_once_more_and_the_others_are_not() -> None:
    groups = Groups((LAUNCHED,), (TimeoutError("no answer"), LAUNCHED))

    assert (groups.answer()["launched"], groups.answer()["notLaunched"]) == (4, 0)
    assert groups.tries == {0: 2, 1: 3}  # of two answers


def test_a_group_that_fails_twice_is_counted_and_the_others_are_kept() -> None:
    groups = Groups((LAUNCHED,), (TimeoutError("no answer"),), (LAUNCHED,))

    answer = groups.answer()

    assert (answer["launched"], answer["notLaunched"]) == (4, 1)
    assert groups.tries == {0: 1, 1: 2, 2: 1}


def test_a_group_that_failed_late_is_left_to_the_next_round() -> None:
    """A second try of a launch that EC2 does not answer would outlast the function."""
    groups, times = Groups((LAUNCHED,), (TimeoutError("no answer"), LAUNCHED)), iter([100.0, 142.0])

    answer = launch_groups(groups.launch, range(2), lambda: next(times))

    assert (answer["launched"], answer["notLaunched"]) == (2, 1)
    assert groups.tries == {0: 1, 1: 1}


@pytest.mark.parametrize("count", [1, 3])
def test_the_function_fails_if_all_groups_fail(count: int) -> None:
    groups = Groups(*((TimeoutError("no answer"),) for _ in range(count)))

    with pytest.raises(TimeoutError):
        groups.answer()
    assert groups.tries == dict.fromkeys(range(count), 1)


def test_a_lost_lease_ends_the_invocation_whatever_else_failed() -> None:
    groups = Groups((LAUNCHED,), (TimeoutError("no answer"),), (LeaseLost("another execution"),))

    with pytest.raises(LeaseLost):
        groups.answer()
    assert groups.tries == {0: 1, 1: 1, 2: 1}
