"""The condition NodeRegistrationHealthy as a function of the last outcomes."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from joiner.pools import Conditions
from joiner.pools.registration_health import (
    LAUNCH_FAILED,
    RegistrationOutcome,
    add_registrations,
    judge_registrations,
    reset_registrations,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GOOD, BAD = "Registered", "RegistrationTimeout"


def pool(*outcomes: str, generation: int = 3, observed: int = 3, class_generation: int = 7) -> dict[str, Any]:
    condition = {"type": "NodeRegistrationHealthy", "status": "Unknown", "observedGeneration": observed}
    return {
        "metadata": {"name": "web", "generation": generation, "resourceVersion": "12"},
        "status": {
            "conditions": [condition],
            "nodeClassObservedGeneration": class_generation,
            "lastRegistrations": list(outcomes),
        },
    }


def outcomes_after(*added: str, before: dict[str, Any]) -> list[str]:
    changes = add_registrations(before, [RegistrationOutcome(each) for each in added], NOON)
    assert changes is not None
    return list(changes["status"]["lastRegistrations"])


@pytest.mark.parametrize(
    ("outcomes", "status", "reason"),
    [
        ((), "Unknown", "NoRegistrations"),
        ((GOOD,), "True", GOOD),
        ((BAD,), "Unknown", BAD),
        ((GOOD, BAD), "True", GOOD),
        ((BAD, BAD), "False", BAD),
        ((BAD, BAD, GOOD, GOOD), "False", BAD),
        ((BAD, "InstanceEnded", GOOD), "False", "InstanceEnded"),
        ((BAD, GOOD, GOOD, GOOD), "True", GOOD),
    ],
)
def test_two_failures_of_the_last_four_are_unhealthy(outcomes: tuple[str, ...], status: str, reason: str) -> None:
    assert judge_registrations(outcomes)[:2] == (status, reason)


def test_the_status_depends_only_on_the_number_of_failures_and_successes() -> None:
    for length in range(5):
        for outcomes in product((GOOD, BAD), repeat=length):
            assert judge_registrations(outcomes)[0] == judge_registrations(sorted(outcomes))[0]


def test_the_message_of_an_unhealthy_pool_gives_the_failures_and_the_place_of_their_causes() -> None:
    assert judge_registrations((GOOD, BAD, "InstanceEnded"))[2] == (
        "2 of the last 3 launched nodes did not register: RegistrationTimeout, InstanceEnded; "
        "the events of their NodeClaims give the causes and the remedies"
    )


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ((GOOD,), "the last launched node registered"),
        ((GOOD, GOOD), "the last 2 launched nodes registered"),
        ((BAD,), "the last launched node did not register: RegistrationTimeout"),
        ((LAUNCH_FAILED,), "the last launch gave no registered node: LaunchFailed"),
        ((GOOD, GOOD, LAUNCH_FAILED), "1 of the last 3 launches gave no registered node: LaunchFailed"),
    ],
)
def test_one_node_is_not_several(outcomes: tuple[str, ...], message: str) -> None:
    assert judge_registrations(outcomes)[2] == message


def test_only_the_last_four_outcomes_are_kept() -> None:
    assert outcomes_after(GOOD, BAD, before=pool(BAD, BAD, BAD, GOOD)) == [BAD, GOOD, GOOD, BAD]


def test_outcomes_of_an_earlier_generation_do_not_count() -> None:
    assert outcomes_after(BAD, before=pool(BAD, observed=2)) == [BAD]
    status = pool(BAD)["status"]
    assert reset_registrations(status, generation=3, class_generation=7) == (BAD,)
    assert reset_registrations(status, generation=4, class_generation=7) == ()
    assert reset_registrations(status, generation=3, class_generation=8) == ()
    assert reset_registrations(status, generation=3, class_generation=None) == (BAD,)


def test_an_outcome_that_changes_nothing_is_not_written() -> None:
    changes = add_registrations(pool(), [RegistrationOutcome(GOOD)] * 4, NOON)
    assert changes is not None and changes["metadata"] == {"resourceVersion": "12"}
    assert Conditions.from_kube(changes["status"]["conditions"])["NodeRegistrationHealthy"].true

    settled = pool()
    settled["status"] |= changes["status"]
    assert add_registrations(settled, [RegistrationOutcome(GOOD)], NOON) is None


def test_a_node_that_was_launched_before_a_change_of_the_pool_or_of_its_class_does_not_count() -> None:
    before = pool(GOOD, generation=3, class_generation=7)
    of = {"3/7": GOOD, "2/7": BAD, "3/6": BAD, "4/7": BAD, "": "InstanceEnded"}

    changes = add_registrations(before, [RegistrationOutcome(each, made_from) for made_from, each in of.items()], NOON)

    assert changes is not None and changes["status"]["lastRegistrations"] == [GOOD, GOOD, "InstanceEnded"]
    assert add_registrations(before, [RegistrationOutcome(BAD, "2/7")] * 2, NOON) is None
